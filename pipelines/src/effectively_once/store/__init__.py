"""The object store: one interface, a bucket or a folder behind it, and what is asked of a store at a start."""
