"""Fraud detection without servers: analyzers, aggregator, writer, presenter, judge."""
