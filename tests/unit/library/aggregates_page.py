"""The page of aggregates: its declaration, the records that it shows, and what they come to."""

from __future__ import annotations

import json
import re
from typing import Any

from effectively_once import Pipeline
from infra.toolchain.prepare import CHECKOUT

PAGE = (CHECKOUT / "docs" / "reference" / "aggregates.md").read_text()
CODE, OWN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ORDERS, RESULT = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))


def declared() -> Pipeline:
    """Execute the page's declaration."""
    names: dict[str, Any] = {}
    exec(CODE, names)  # noqa: S102 - our own page
    made: Pipeline = names["pipeline"]
    return made
