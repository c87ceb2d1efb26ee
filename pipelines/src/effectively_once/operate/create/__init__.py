"""Topics, tables and buckets that a pipeline needs."""
