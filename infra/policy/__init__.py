"""What the platform must never be: a rule each, for the API server and for a preview with the policy pack."""
