"""What each chart takes: one frozen model per chart, from which its `values.schema.json` is generated."""
