"""What a run does: the demo, the acceptance suites, the campaigns on either stack, and the plans of soaks."""
