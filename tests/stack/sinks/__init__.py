"""One conformance suite for every sink, on real servers behind links that lose, hold and cut answers."""
