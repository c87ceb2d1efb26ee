"""Checkers: pure functions of recorded evidence. They import no client library, so they run where nothing runs."""
