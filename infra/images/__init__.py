"""Builds the container images: `images/` has a folder for each."""
