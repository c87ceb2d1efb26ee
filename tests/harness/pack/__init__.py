"""A run in one small file: every byte that the judge reads, most lines as a few numbers."""
