"""One epoch's work: a shard reads, decides, publishes its rows, and tells the driver what came of it."""
