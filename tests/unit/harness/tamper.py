"""Ways to tamper with a run directory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.checkers import binding
from tests.harness.evidence import SINKS
from tests.harness.history import LINK, chain_lines
from tests.harness.sends import crc_of_row
from tests.unit.harness.fabricated_files import Row, write_json, write_lines

Change = Callable[[Path], Any]
"""Tampers with a run directory."""


def lines_of(path: Path) -> list[Row]:
    """Rows of a file, without its end line."""
    rows: list[Row] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{name: row[name] for name in row if name != LINK} for row in rows if "end" not in row]


def change_lines(path: Path, change: Callable[[list[Row]], Any]) -> None:
    """Change the rows of a file in place, keep its end line true and bind its run anew: whoever tampers can do so."""
    ended = '"end"' in path.read_text(encoding="utf-8").splitlines()[-1]
    rows = lines_of(path)
    change(rows)
    write_lines(path, rows, end=ended)
    rebind(path)


def change_json(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON document in place, and bind its run anew."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    write_json(path, document)
    rebind(path)


def observed(sink: str, change: Callable[[list[Row]], Any]) -> Change:
    """A change of the rows that were read of a sink."""
    return lambda run: change_lines(run / "observed" / f"{sink}.jsonl", change)


def history(change: Callable[[list[Row]], Any]) -> Change:
    return lambda run: change_lines(run / "history.jsonl", change)


def sent(change: Callable[[list[Row]], Any]) -> Change:
    return lambda run: change_lines(run / "sent.jsonl", change)


def document(name: str, change: Callable[[Any], Any]) -> Change:
    """A change of what was read as one document: `chain`, `quiet`, `epilogue`."""
    return lambda run: change_json(run / "observed" / f"{name}.json", change)


def manifest(change: Callable[[Any], Any]) -> Change:
    return lambda run: change_json(run / "manifest.json", change)


def epoch(number: int, **fields: Any) -> Change:
    """A change of an epoch in the chain."""
    return document("chain", lambda chain: chain["epochs"][number].update(fields))


def first_of(rows: list[Row], epoch: int) -> int:
    """Where the first row of an epoch stands."""
    return next(at for at, row in enumerate(rows) if row["epoch"] == epoch)


def rebind(path: Path) -> None:
    """Bind the run anew that a file is of, where it was bound."""
    runs = [one for one in path.parents if (one / binding.NAME).is_file()]
    if runs:
        bind(runs[-1])


def bind(run: Path) -> Path:
    """Link the histories of a run that was made up, and bind it."""
    for path in run.rglob("history.jsonl"):
        path.write_bytes(b"".join(line + b"\n" for line in chain_lines(path.read_bytes().splitlines())))
    binding.bind(run)
    return run


def name_of(row: Row) -> str:
    """How evidence names an observed row."""
    if row["sink"] == "user_counts":
        return f"user {row['user']} window {row['window_start_ms']}"
    if row["sink"] == "global_counts":
        return f"window {row['window_start_ms']}"
    topic, partition, offset = row["source"]
    return f"id {row['id']} from {topic}/{partition}@{offset}"


def watch(run: Path) -> Path:
    """Give a clean run the files of a reader that watched it from its first event to its last."""
    times = [event["t"] for event in lines_of(run / "history.jsonl")]
    for sink in SINKS:
        write_lines(run / "observed" / f"{sink}.concurrent.jsonl", sightings_of(run, sink, min(times), max(times)))
    change_json(run / "manifest.json", lambda manifest: manifest.update(concurrent_reader=True))
    return run


def sightings_of(run: Path, sink: str, from_ms: int, to_ms: int) -> list[Row]:
    """What a reader that is always up to date writes of a sink, in observations of two rows."""
    rows = lines_of(run / "observed" / f"{sink}.jsonl")
    found: list[Row] = [{"t": from_ms, "reader": "started"}]
    if sink == "global_counts":
        named: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            named[row["epoch"]].append(row)
        epochs = json.loads((run / "observed" / "chain.json").read_text(encoding="utf-8"))["epochs"]
        for epoch, of_epoch in ((one["epoch"], named[one["epoch"]]) for one in epochs):
            crcs = [crc_of_row(row) for row in of_epoch]
            found.append({"t": from_ms, "epoch": epoch, "object": f"m{epoch}", "crcs": crcs})
    for partition in sorted({row["partition"] for row in rows if "partition" in row}):
        mine = [row for row in rows if row["partition"] == partition]
        for start in range(0, len(mine), 2):
            part = mine[start : start + 2]
            offsets, crcs = [row["offset"] for row in part], [crc_of_row(row) for row in part]
            found.append({"t": from_ms + 1, "partition": partition, "offsets": offsets, "crcs": crcs})
    return [*found, {"t": to_ms, "reader": "stopped"}]
