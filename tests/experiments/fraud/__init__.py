"""Fraud detection under kills: every transaction decided once, partial decisions marked, latency by phase."""
