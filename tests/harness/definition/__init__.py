"""A pipeline that its author defined: what it says of itself, and what a run makes of that."""
