"""Pure parts of the packaged jobs."""
