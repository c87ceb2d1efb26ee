"""Measurements: `python -m tests.bench CASE`, tables of ratios, raw samples below `runs/bench`."""
