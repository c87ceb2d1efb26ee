"""`asked.jsonl`: what the product said of its sources while a run went on, to whoever asked it as an operator does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import LinesWriter, read_lines

ASKED = "asked.jsonl"
CERTIFICATE, METRIC, WARNING = "certificate", "metric", "warning"


class Certificate(NamedTuple):
    """What `effectively_once complete --window` said.

    `at`: when it was asked. `code`: its exit code; None where it did not end in time. `says`: its JSON; None where it
    said none, `words` are its last then.
    """

    at: int
    window: int
    code: int | None
    says: Mapping[str, Any] | None
    words: str


class Metric(NamedTuple):
    """How many sources a driver's metric said are not waited for, as of which epoch; when it was asked."""

    at: int
    epoch: int
    released: int


class Warned(NamedTuple):
    """That a driver's log warned that a source is not waited for any more, which had come to `time_ms`."""

    driver: str
    source: str
    time_ms: int | None


class Asked(NamedTuple):
    """All of it."""

    certificates: tuple[Certificate, ...]
    metrics: tuple[Metric, ...]
    warnings: tuple[Warned, ...]


def path_of(run: Path) -> Path:
    """Return the file, of a run directory."""
    return run / ASKED


def write(lines: LinesWriter, one: Certificate | Metric | Warned) -> None:
    """Append a line."""
    kind = {Certificate: CERTIFICATE, Metric: METRIC, Warned: WARNING}[type(one)]
    lines.write({"asked": kind, **one._asdict()})


def read(run: Path) -> Asked:
    """Read all lines; raises EvidenceError."""
    path = path_of(run)
    found: dict[str, list[Any]] = {CERTIFICATE: [], METRIC: [], WARNING: []}
    for number, row in enumerate(read_lines(path), 1):
        try:
            found[row["asked"]].append(_READ[row["asked"]](row))
        except (KeyError, TypeError) as error:
            raise EvidenceError(f"nothing that was asked ({error!r})", f"{path}:{number}", "run again") from error
    return Asked(tuple(found[CERTIFICATE]), tuple(found[METRIC]), tuple(found[WARNING]))


def _certificate(row: Mapping[str, Any]) -> Certificate:
    says, code = row["says"], row["code"]
    _of(int, row["at"], row["window"], *(() if code is None else (code,)))
    _of(dict, *(() if says is None else (says,)))
    _of(str, row["words"])
    return Certificate(row["at"], row["window"], code, says, row["words"])


def _metric(row: Mapping[str, Any]) -> Metric:
    _of(int, row["at"], row["epoch"], row["released"])
    return Metric(row["at"], row["epoch"], row["released"])


def _read_warning(row: Mapping[str, Any]) -> Warned:
    time_ms = row["time_ms"]
    _of(str, row["driver"], row["source"])
    _of(int, *(() if time_ms is None else (time_ms,)))
    return Warned(row["driver"], row["source"], time_ms)


def _of(kind: type, *values: object) -> None:
    if any(type(value) is not kind for value in values):
        raise TypeError(f"{values} are not all of type {kind.__name__}")


_READ = {CERTIFICATE: _certificate, METRIC: _metric, WARNING: _read_warning}
