"""What a pipeline is, where it stands, and whether a driver would start."""
