"""Faults: what is done to a run's processes, one sort a file, and the one who carries a plan of them out."""
