"""The cluster of this machine: decisions, texts and refusals. No engine and no cluster is asked."""
