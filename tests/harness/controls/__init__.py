"""Negative controls: the same job with one guard of the protocol taken away, which an oracle has to find."""
