"""Finds the tools a run needs, or builds them once into a cache outside the checkout."""
