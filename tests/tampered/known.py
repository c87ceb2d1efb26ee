"""What the judge found of a run before it was altered, to be said again of what does not depend on the alteration.

An oracle is a function of the files that it opens. Where none of those was altered it would open the same ones and
find the same, so it need not be asked again. Nothing is believed: `Trial` asks the whole judge of a share of all
alterations and of each that passes, and the two have to agree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.harness import judge as judge_module
from tests.harness.checkers.case import Case
from tests.harness.results import Oracle

REMEMBERED = (
    "multiset", "aggregates", "monotone", "chain", "epilogue", "messages", "workload", "coverage", "windows",
    "decisions",
)  # fmt: skip
"""Oracles of a run that are functions of its files alone; the others are cheap, or depend on what one before found."""
PIECES = {
    "manifest": ("manifest.json",),
    "sends": ("sent.jsonl",),
    "sent_at": ("sent.jsonl",),
    "chain": ("observed/chain.json",),
    "reference": ("manifest.json", "sent.jsonl", "observed/chain.json"),
}
"""Attributes of a case that take long to read -> the files that they are read from."""
Check = Callable[[Case], Oracle]
_opened: set[str] = set()
_watching: list[bool] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watching:
        _opened.add(str(arguments[0]))


@contextmanager
def _watched() -> Iterator[set[str]]:
    """Note all files that are opened in a block, by their paths as they were given."""
    if None not in _hooked:
        sys.addaudithook(_watch)
        _hooked.add(None)
    _opened.clear()
    _watching.append(True)
    try:
        yield _opened
    finally:
        _watching.pop()


_hooked: set[None] = set()


class Known:
    """What is known of a run as it was recorded.

    Args:
        run: its directory, not altered yet.

    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._case = Case(run)
        self._found: dict[str, tuple[Oracle, frozenset[str]]] = {}
        with mock.patch.object(judge_module, "_protected", self._learn):
            judge_module.judge(run, write=False)
        for piece in PIECES:
            getattr(self._case, piece)

    def _learn(self, name: str, number: int, check: Check, case: Case) -> Oracle:
        if name not in REMEMBERED or case.run.path != self.run:
            return PROTECTED(name, number, check, case)
        with _watched() as opened:
            # Of a case of its own: what another oracle had read would not be opened.
            found = PROTECTED(name, number, check, Case(self.run))
            names = frozenset(str(Path(one).relative_to(self.run)) for one in opened if one.startswith(str(self.run)))
        self._found[name] = found, names
        return found

    @contextmanager
    def unless_altered(self, altered: str) -> Iterator[None]:
        """Let the judge in a block say again what it found of the run, of all that does not rest on one file."""

        def case_of(run: Any) -> Case:
            case = Case(run)
            if case.run.path == self.run:
                known = (piece for piece, files in PIECES.items() if altered not in files)
                vars(case).update({piece: vars(self._case)[piece] for piece in known})
            return case

        def protected(name: str, number: int, check: Check, case: Case) -> Oracle:
            known = self._found.get(name) if case.run.path == self.run else None
            return PROTECTED(name, number, check, case) if known is None or altered in known[1] else known[0]

        with mock.patch.multiple(judge_module, Case=case_of, _protected=protected):
            yield


PROTECTED: Callable[[str, int, Check, Case], Oracle] = vars(judge_module)["_protected"]
