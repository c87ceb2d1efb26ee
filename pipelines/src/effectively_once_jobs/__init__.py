"""Packaged jobs: pure transforms, and a short main each."""
