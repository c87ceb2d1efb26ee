"""The only part of the harness that talks to Kafka, the object store, Spark and the operating system."""
