"""Tests of the workload: no Kafka, no Spark, seconds."""
