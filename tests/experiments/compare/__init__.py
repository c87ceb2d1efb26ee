"""`make compare`: what each semantics costs and what it gets wrong, one job under four, same records and same kills."""
