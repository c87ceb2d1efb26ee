"""What commands share that play one workload in several arms and measure each: `make compare`, `make two-ways`."""
