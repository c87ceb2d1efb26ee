"""The payment service of the card ledger."""
