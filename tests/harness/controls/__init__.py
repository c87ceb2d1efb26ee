"""Negative controls: the same job with an unsafe sink, which the oracles must find doubling under the same kill."""
