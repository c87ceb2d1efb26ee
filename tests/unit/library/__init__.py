"""The pure parts of the library: no Spark, no broker, no store."""
