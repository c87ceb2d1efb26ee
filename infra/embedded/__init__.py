"""The stack as processes of one machine: a Kafka broker and an object store, started for one run and gone after it."""
