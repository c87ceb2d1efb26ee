"""The card ledger under kills: its records, its plan, its judge."""
