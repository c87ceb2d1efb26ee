"""Experiments: a folder each, with the same file names; what they share is here."""
