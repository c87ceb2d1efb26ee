"""Where a run is played, what it collects, and what is recorded of it."""
