"""The matrix: each bug, and what caught it."""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT
from tests.harness.commit import git_state
from tests.planted.season import Played
from tests.planted.state import product_digest, product_stated

_LIBRARIES = re.compile("|".join(f"{re.escape(sysconfig.get_path(name))}/" for name in ("purelib", "stdlib")))
HEAD = "| bug | breaks | caught by | with | seeds | s |\n|---|---|---|---|---|---|"


def markdown(played: Sequence[Played], product: str) -> str:
    """Return the page, with a sentence on the product; bugs that were not caught come first."""
    caught = [one for one in played if one.caught]
    lost = [one for one in played if not one.caught]
    lines = [
        "# Planted bugs and what caught them",
        "",
        f"{len(caught)} of {len(played)} planted bugs were caught. The correct product passed every run of them. "
        + product,
        "",
        HEAD,
    ]
    return "\n".join([*lines, *map(_row, [*lost, *caught])]) + "\n"


def write(played: Sequence[Played], at: Path) -> Path:
    """Write `matrix.md` and `matrix.json`; return the first."""
    at.mkdir(parents=True, exist_ok=True)
    told = {
        "digest": product_digest(),
        **git_state(CHECKOUT),
        "caught": sum(one.caught for one in played),
        "planted": len(played),
        "bugs": [one.model_dump() for one in played],
    }
    (at / "matrix.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    (at / "matrix.md").write_text(markdown(played, product_stated()))
    return at / "matrix.md"


def _row(one: Played) -> str:
    seen = next((seen for seen in one.sightings if seen.how != "caught"), one.sightings[0])
    by = seen.by if seen.how == "caught" else f"**not caught** ({seen.how}: {seen.by})"
    seconds = sum(seen.seconds for seen in one.sightings)
    line = _LIBRARIES.sub("", seen.line).replace("`", " ")
    cells = (one.bug, one.breaks, by, f"`{line}`" if line else "", str(len(one.sightings)), f"{seconds:.1f}")
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
