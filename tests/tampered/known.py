"""What the judge found of a run before it was altered, to be said again of what does not rest on the alteration.

An oracle is a function of the files that it opens. Where none of them was altered it would open the same ones and
find the same, so it is not asked again. Nothing is believed: `Trial` asks the whole judge of a share of all
alterations and of each that passes where it should not, and both have to agree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from tests.harness.checkers import chain, monotone, multiset, quiet
from tests.harness.checkers.case import Case
from tests.harness.judge import verdict as judge_module
from tests.harness.results import Oracle

REFERENCE = ("manifest.json", "sent.jsonl", "observed/chain.json")
REMEMBERED = (
    "multiset",
    "aggregates",
    "monotone",
    "chain",
    "epilogue",
    "messages",
    "workload",
    "coverage",
    "windows",
    "decisions",
)
"""Oracles of a run that are functions of its files alone; the others are cheap, or rest on what one before found."""
PIECES: Mapping[str, tuple[str, ...]] = {
    "manifest": ("manifest.json",),
    "sends": ("sent.jsonl",),
    "sent_at": ("sent.jsonl",),
    "chain": ("observed/chain.json",),
    "reference": REFERENCE,
}
"""Attributes of a case that take long to read -> the files that they are read from."""
Check = Callable[[Case], Oracle]


@dataclass(frozen=True)
class Part:
    """A function that oracles call, whose result rests on some files alone.

    Attributes:
        module: where it is called.
        name: of the function.
        key: tells calls of one run apart, by their arguments.
        files: what it rests on, by its key; below `observed/` a prefix is enough.

    """

    module: ModuleType
    name: str
    key: Callable[..., Any]
    files: Callable[[Any], tuple[str, ...]]


PARTS = (
    Part(monotone, "compare", lambda sink, *_: sink, lambda sink: (f"observed/{sink}.",)),
    Part(multiset, "compare", lambda sink, *_: sink, lambda sink: (f"observed/{sink}.jsonl", *REFERENCE)),
    Part(quiet, "_read_to", lambda _: None, lambda _: ("observed/", "manifest.json")),
    Part(chain, "catalog", lambda record, _: record.epoch, lambda _: REFERENCE),
)


class Known:
    """What is known of a run as it was recorded.

    Args:
        run: its directory, not altered yet.

    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._case = Case(run)
        self._found: dict[str, tuple[Oracle, frozenset[str]]] = {}
        self._results: dict[tuple[str, str, Any], Any] = {}
        # A control calls the same functions, of files of its own.
        self._parts = () if (run / "controls").is_dir() else PARTS
        with mock.patch.object(judge_module, "protect", self._learn), ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(self._replaced(part, None))
            judge_module.judge(run, write=False)
        for piece in PIECES:
            getattr(self._case, piece)

    @contextmanager
    def unless_altered(self, altered: str) -> Iterator[None]:
        """Let the judge in a block say again what it found of the run, of all that does not rest on one file."""

        def case_of(run: Any) -> Case:
            case = Case(run)
            if case.run.path == self.run:
                known = (piece for piece, files in PIECES.items() if altered not in files)
                vars(case).update({piece: vars(self._case)[piece] for piece in known})
            return case

        def protect(name: str, number: int, check: Check, case: Case) -> Oracle:
            known = self._found.get(name) if case.run.path == self.run else None
            return PROTECTED(name, number, check, case) if known is None or altered in known[1] else known[0]

        def stands(files: tuple[str, ...]) -> bool:
            return not altered.startswith(files)

        with mock.patch.multiple(judge_module, Case=case_of, protect=protect), ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(self._replaced(part, stands))
            yield

    def _learn(self, name: str, number: int, check: Check, case: Case) -> Oracle:
        if name not in REMEMBERED or case.run.path != self.run:
            return PROTECTED(name, number, check, case)
        with _watched() as opened:
            # Of a case of its own: what another oracle had read would not be opened.
            found = PROTECTED(name, number, check, Case(self.run))
            mine = (Path(one) for one in opened if one.startswith(str(self.run)))
            self._found[name] = found, frozenset(str(one.relative_to(self.run)) for one in mine)
        return found

    def _replaced(self, part: Part, stands: Callable[[tuple[str, ...]], bool] | None) -> Any:
        """Let a function say again what it said, where its files stand as they were; without `stands` it is noted."""
        asked = vars(part.module)[part.name]

        def said(*arguments: Any) -> Any:
            key = part.key(*arguments)
            at = part.module.__name__, part.name, key
            if stands is not None and at in self._results and stands(part.files(key)):
                return self._results[at]
            found = asked(*arguments)
            if stands is None:
                self._results[at] = found
            return found

        return mock.patch.object(part.module, part.name, said)


PROTECTED: Callable[[str, int, Check, Case], Oracle] = vars(judge_module)["protect"]
_opened: set[str] = set()
_state = {"hooked": False, "watching": False}


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _state["watching"]:
        _opened.add(str(arguments[0]))


@contextmanager
def _watched() -> Iterator[set[str]]:
    """Note all files that are opened in a block, by their paths as they were given."""
    if not _state["hooked"]:
        # It cannot be taken away again.
        sys.addaudithook(_watch)
        _state["hooked"] = True
    _opened.clear()
    _state["watching"] = True
    try:
        yield _opened
    finally:
        _state["watching"] = False
