"""Tests, and the harness they share with the demo."""
