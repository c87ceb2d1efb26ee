"""Fusion and combiner lifting on and off in pods: the variants of `make bench CASE=optimisations`, and their judge."""
