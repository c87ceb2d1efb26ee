"""A payment service for tests: a real HTTP server whose journal on disk is the ground truth of what took effect."""
