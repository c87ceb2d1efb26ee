"""An entry of what may be altered without anybody objecting: where, how, and why no claim rests on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.tampered.alterations import Alteration
from tests.tampered.altered import Altered
from tests.tampered.places import Evidence, matches

When = Callable[[Altered], bool]
ANY: tuple[str, ...] = ()
LITTLE = ("one more", "one less", "half more")
ORDER = ("swapped with the next",)
HISTORIES = "history.jsonl|controls/*/history.jsonl"


@dataclass(frozen=True)
class Harmless:
    """One entry.

    Attributes:
        files, fields: names; `*` is for anything, `|` between alternatives.
        operations: without any: all.
        why: nobody has to object.
        when: what of the run makes it harmless, beyond the place; None: nothing.
        run: name of the only run of which it is; None: of any.

    """

    files: str
    fields: str
    operations: tuple[str, ...]
    why: str
    when: When | None = None
    run: str | None = None

    def __str__(self) -> str:
        return f"{self.files}: {self.fields}: {', '.join(self.operations) or 'whatever is done'}"

    def covers(self, alteration: Alteration, evidence: Evidence) -> bool:
        """Whether an alteration is one of these."""
        if self.run not in (None, alteration.run):
            return False
        if self.operations and alteration.operation not in self.operations:
            return False
        if not matches(self.files, alteration.file) or not matches(self.fields, alteration.field):
            return False
        if self.when is None or alteration.place is None:
            return self.when is None
        return self.when(Altered(alteration, evidence))
