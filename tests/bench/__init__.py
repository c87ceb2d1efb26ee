"""Measurements of single parts, each a module that is run by itself and prints JSON lines."""
