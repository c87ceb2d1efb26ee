"""Minimal reproductions of faults of what we stand on; none of them runs in a suite."""
