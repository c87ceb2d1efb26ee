"""Faults of the software this project stands on, each in its smallest form; a test that fails tells of a repair."""
