"""The alterations: every operation on every field of every file of a run, at lines that a seed draws."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.harness.checkers import binding
from tests.tampered.places import Evidence, Place, matches
from tests.tampered.values import ELEMENTS, OPERATIONS, SAME, VALUES, changed

UNBOUND_EVERY = 10
"""Of so many alterations one is done without binding the run anew."""
FILE = "file"
"""Name of the field that is a file as a whole."""
WHOLE = ("removed", "emptied", "cut at half", "last line cut off", "first line cut off")
SWAPPED = "swapped with the next"
TRIES = 40
"""Places that are tried before an operation is taken to be none for a field."""
Files = Mapping[str, Mapping[str, Evidence]]
"""Name of a run -> name of a file -> the file."""


@dataclass(frozen=True)
class Alteration:
    """One alteration.

    Attributes:
        number: in its plan; with the seed it draws what is put in.
        run: name of the run that is altered.
        file: of the run.
        field: name of the field, FILE for the file as a whole.
        operation: what is done.
        place: where; None for the file as a whole.
        bound: whether the run is bound anew, as whoever tampers can do.
        seed: of the plan.

    """

    number: int
    run: str
    file: str
    field: str
    operation: str
    place: Place | None
    bound: bool
    seed: int

    def __str__(self) -> str:
        where = "" if self.place is None else f" (line {self.place.line + 1}, {'.'.join(map(str, self.place.steps))})"
        again = "" if self.bound else ", not bound anew"
        return f"{self.number}: {self.run}/{self.file}: {self.field}: {self.operation}{where}{again}"

    def applied(self, evidence: Evidence) -> bytes | None:
        """Return the bytes of the altered file; None where it is removed.

        Raises:
            ValueError: nothing would change.

        """
        found = _altered(evidence, self.operation, self.field, self.place, Random(f"{self.seed} {self.number}"))
        if found is SAME:
            raise ValueError(f"nothing changes: {self}")
        whole: bytes | None = found
        if isinstance(found, list):
            whole = b"".join(line + b"\n" for line in found) if evidence.is_lines else b"".join(found)
        return whole


def _altered(evidence: Evidence, operation: str, field: str, place: Place | None, random: Random) -> Any:
    """Return the altered lines of a file; of a file as a whole its bytes, or None."""
    if place is None:
        return _whole(evidence.raw, operation)
    documents, at = evidence.documents, place.line
    if place.steps or operation in VALUES:
        others = evidence.values[field]
        found = changed(documents[at], place.steps, operation, others, random)
        if found is SAME:
            return SAME
        line = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
        return [*evidence.raw_lines[:at], line, *evidence.raw_lines[at + 1 :]]
    if not evidence.is_lines or (operation == SWAPPED and documents[at : at + 1] == documents[at + 1 : at + 2]):
        return SAME
    lines = ELEMENTS[operation](evidence.raw_lines, at)
    return SAME if lines is SAME else _with_true_end(lines, documents, len(lines) - len(documents))


def _with_true_end(lines: list[bytes], documents: Sequence[dict[str, Any]], more: int) -> list[bytes]:
    """Keep a last line true that tells how many there are: whoever tampers would."""
    end = documents[-1]
    name = "rows" if end.get("end") is True else "lines"
    if not more or name not in end or json.loads(lines[-1]) != end:
        return lines
    return [*lines[:-1], json.dumps({**end, name: end[name] + more}, separators=(",", ":")).encode()]


def _whole(raw: bytes, operation: str) -> Any:
    lines = raw.splitlines(keepends=True)
    found = {
        "removed": None,
        "emptied": b"",
        "cut at half": raw[: len(raw) // 2],
        "last line cut off": b"".join(lines[:-1]),
        "first line cut off": b"".join(lines[1:]),
    }[operation]
    return SAME if found == raw else found


@dataclass(frozen=True)
class Site:
    """An operation on a field of a file."""

    run: str
    file: str
    field: str
    operation: str


def sites(files: Files, only: Iterable[str] = ()) -> list[Site]:
    """Return all operations on all fields, in the order of runs and files.

    Args:
        files: of the runs.
        only: patterns of files, or of `file: field`, with `*` for anything; without any: all.

    """
    wanted = [*only]
    found: list[Site] = []
    for run, of_run in files.items():
        for name, evidence in of_run.items():
            for field in (FILE, *evidence.places):
                if not wanted or any(matches(one, name) or matches(one, f"{name}: {field}") for one in wanted):
                    operations = WHOLE if field == FILE else OPERATIONS
                    found += [Site(run, name, field, operation) for operation in operations]
    return found


def plan(files: Files, seed: int, count: int, only: Iterable[str] = ()) -> list[Alteration]:
    """Draw alterations, from all sites in turn; fewer than asked for where there are no more."""
    random = Random(seed)
    drawn = sites(files, only)
    random.shuffle(drawn)
    found: list[Alteration] = []
    left = [_places(files[site.run][site.file], site, Random(f"{seed} {site}")) for site in drawn]
    open_sites = list(zip(drawn, left, strict=True))
    while open_sites and len(found) < count:
        again = []
        for site, places in open_sites:
            if len(found) == count:
                break
            place = next(places, SAME)
            if place is SAME:
                continue
            number = len(found)
            bound = number % UNBOUND_EVERY != 0 and not site.file.endswith(binding.NAME)
            found.append(
                Alteration(number, site.run, site.file, site.field, site.operation, place, bound, seed)  # type: ignore[arg-type]
            )
            again.append((site, places))
        open_sites = again
    return found


def _places(evidence: Evidence, site: Site, random: Random) -> Iterator[Place | None]:
    """Yield places of a site, each once, at which its operation changes something."""
    if site.field == FILE:
        if _whole(evidence.raw, site.operation) is not SAME:
            yield None
        return
    places = evidence.places[site.field]
    idle = 0
    for at in random.sample(range(len(places)), len(places)):
        if idle == TRIES:
            return
        if _altered(evidence, site.operation, site.field, places[at], random) is SAME:
            idle += 1
        else:
            idle = 0
            yield places[at]
