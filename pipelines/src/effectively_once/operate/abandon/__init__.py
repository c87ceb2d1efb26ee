"""Ways out of a declared epoch that cannot be finished, and of an input that lost records."""
