"""The suite that raises alerts on a cluster, without one."""
