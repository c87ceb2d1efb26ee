"""Any record, declaration and settings: what must not stop, lose anything, or end without a named error."""
