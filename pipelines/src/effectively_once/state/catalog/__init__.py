"""The dedup catalog of one shard (S3): exact, bounded by what is live, and quick at millions of ids.

Ids lie in buckets of system time; a bucket is a Bloom filter in front of runs that are sorted by hash. A filter that
says no spares the look-up; one that says maybe leads to the ids themselves, whose bytes alone decide.
"""

from effectively_once.state.catalog.buckets import BUCKET_MS
from effectively_once.state.catalog.catalog import KIND, SCHEMA, Catalog, canonical
from effectively_once.state.catalog.counters import Counters

__all__ = ["BUCKET_MS", "KIND", "SCHEMA", "Catalog", "Counters", "canonical"]
