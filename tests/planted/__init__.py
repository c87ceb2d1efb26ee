"""A garden of planted bugs: small faults of the product, kept as data, each of which a run has to catch."""
