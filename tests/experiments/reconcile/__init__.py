"""Lambda comparison: streams under kills, and the batch run that is held against them."""
