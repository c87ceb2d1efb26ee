"""A campaign of hours, in parts."""
