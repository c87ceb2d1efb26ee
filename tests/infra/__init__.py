"""Tests of the Pulumi program: a mocked engine, no cluster."""
