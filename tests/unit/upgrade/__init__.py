"""A pipeline that is changed while it runs."""
