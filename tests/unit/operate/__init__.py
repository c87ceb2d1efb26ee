"""The operator's commands on facts that were written down: no cluster is asked."""
