"""What a pipeline knows between epochs: ids, windows, lateness, and the deltas that an epoch adds to them."""
