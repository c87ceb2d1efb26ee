"""A deployed pipeline changed while it runs, by updates of its stack: `make acceptance SUITE=upgrade`."""
