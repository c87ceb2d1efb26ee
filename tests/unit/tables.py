"""Tables of Markdown, whatever hand wrote them."""

from __future__ import annotations

import re


def rows(text: str) -> list[str]:
    """Return the rows of all tables, the lines below their heads left out; empty cells have one form."""
    found = (re.sub(r" +", " ", line) for line in text.splitlines() if line.startswith("|"))
    return [line for line in found if not re.fullmatch(r"[| :-]+", line)]
