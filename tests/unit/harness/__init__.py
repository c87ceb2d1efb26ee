"""Tests of the judge on fabricated run directories."""
