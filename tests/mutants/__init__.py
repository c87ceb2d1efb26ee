"""Mechanical mutants of the product's core: how many of them the unit tests kill, and what the others are."""
