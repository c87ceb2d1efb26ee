"""The chain's rules on an object store in memory."""
