"""One component per part of the platform: pure `values(settings)` for its chart, then a pulumi.ComponentResource."""
