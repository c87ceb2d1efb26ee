"""What a fuzz run leaves: how often each outcome came, in memory and on the stack, with seed and commit."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

JSON, TABLE = "result.json", "table.md"
KIND = "fuzz"
MEMORY, STACK = PARTS = ("memory", "stack")
READ, RESULTS = "read", "results"
FATES = (READ, "accepted", "duplicate", RESULTS)
"""What is no reason of a refusal: records that were read, and what became of them."""


@dataclass(frozen=True)
class Result:
    """A run in which nothing stopped, was lost or differed.

    Attributes:
        seed: what was drawn.
        commit: of the checkout; empty outside a repository.
        dirty: whether it had changes that no commit has.
        outcomes: part -> outcome or reason -> how often.

    """

    seed: int
    commit: str
    dirty: bool
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    kind: str = KIND

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file. Raises OSError, ValueError, TypeError: it is none."""
        found: dict[str, Any] = json.loads(path.read_bytes())
        if found.get("kind") != KIND:
            raise ValueError(f"{path} is no result of a fuzz run")
        return cls(**found)

    def records(self, part: str) -> int:
        """Return how many records went through a part."""
        return self.outcomes.get(part, {}).get(READ, 0)

    def markdown(self) -> str:
        """Return the page of it."""
        read = " and ".join(f"{self.records(part):,} records {_WHERE[part]}" for part in PARTS if part in self.outcomes)
        at = f"at commit `{self.commit[:12]}`" if self.commit else "outside of a repository"
        changes = ", with changes that no commit has" if self.dirty else ""
        rows = [
            f"| {part} | {outcome} | {count:,} |"
            for part in PARTS
            for outcome, count in sorted(self.outcomes.get(part, {}).items(), key=_order)
        ]
        return "\n".join(
            (
                "# Records of any kind, and what became of them",
                "",
                f"{read} went through (`make fuzz SEED={self.seed}`, {at}{changes}). No pipeline stopped, no "
                "record was lost, no two sinks differ, and every refusal has a reason.",
                "",
                "| part | outcome or reason of the refusal | times |",
                "| -- | -- | -- |",
                *rows,
                "",
            )
        )

    def write(self, folder: Path) -> None:
        """Write both files."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JSON).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        (folder / TABLE).write_text(self.markdown(), encoding="utf-8")


_WHERE = {MEMORY: "in memory", STACK: "on the stack"}


def forget(folder: Path) -> None:
    """Delete what an earlier run left: one that fails leaves nothing that looks as if it had passed."""
    for name in (JSON, TABLE):
        (folder / name).unlink(missing_ok=True)


def counted(outcomes: Counter[str]) -> dict[str, int]:
    """Return counts as a result has them, in an order of their own."""
    return dict(sorted(outcomes.items(), key=_order))


def _order(item: tuple[str, int]) -> tuple[int, int, str]:
    outcome, count = item
    return (FATES.index(outcome) if outcome in FATES else len(FATES), -count, outcome)
