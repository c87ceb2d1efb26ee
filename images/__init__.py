"""The container images: one folder each, and the builder."""
