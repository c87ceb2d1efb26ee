"""What a command tells in one line."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can act on: what, where, and what to do. A command line shows it and ends with 2."""


class RefusedError(UserError):
    """The command line asks for something that is not to be had; the message says what is."""
