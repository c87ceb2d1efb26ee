"""Tests against a real broker and a real object store."""
