"""Objects that nothing needs any more, deleted; spans of manifests, compacted."""
