"""Exactly-once streaming on Spark: a chain of epochs on an object store, a dedup catalog and sinks that publish once.

The protocol is told in docs/explanation/protocol.md; rule numbers (R1 to R12) in docstrings refer to it.
"""
