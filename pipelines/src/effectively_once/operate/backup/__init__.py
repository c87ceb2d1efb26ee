"""A copy of the chain and of what it names, and the way back from it."""
