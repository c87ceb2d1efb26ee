"""The card ledger under kills: three ways to call a payment service, the same kills, and what its journal says."""
