"""A judge of run directories in another language, and its tests."""
