"""What the platform must never be, a rule each: for the API server, and for `pulumi preview --policy-pack infra/policy`."""
