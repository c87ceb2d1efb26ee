"""Sinks that publish an epoch once: the rows of a shard and its progress mark become visible together (R8)."""
