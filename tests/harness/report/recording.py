"""What the page reads of a run directory, as plain data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.harness.report.lenient import mapping, real


@dataclass(frozen=True)
class Recording:
    """The files of one run, as far as they could be read.

    `start_ms` is the moment all times on the page are relative to. `gaps` says in sentences what could not be read.
    """

    name: str
    results: dict[str, Any]
    manifest: dict[str, Any]
    history: list[dict[str, Any]]
    chain: dict[str, Any]
    controls: dict[str, dict[str, Any]]
    gaps: list[str] = field(default_factory=list)

    @property
    def start_ms(self) -> float:
        """The start of the run: as the manifest says, else its first event, in milliseconds since 1970."""
        first = self.history[0]["t"] if self.history else None
        started = real(self.manifest.get("started_at"))
        if started is not None and started > 0 and (first is None or started <= first):
            return started
        return float(first) if first is not None else 0.0


def read(run: Path) -> Recording:
    """Read a run directory; files that are missing or broken become gaps, not errors.

    Raises FileNotFoundError when the directory itself does not exist.
    """
    if not run.is_dir():
        raise FileNotFoundError(f"run directory {run} does not exist; name one below runs/, for example runs/latest")
    gaps: list[str] = []
    results = read_object(run / "results.json", "results.json", gaps)
    manifest = read_object(run / "manifest.json", "manifest.json", gaps)
    history = _read_lines(run / "history.jsonl", "history.jsonl", gaps)
    chain_file = run / "observed" / "chain.json"
    chain = read_object(chain_file, "observed/chain.json", gaps) if chain_file.exists() else {}
    controls = {
        path.parent.name: read_object(path, f"controls/{path.parent.name}/results.json", gaps)
        for path in sorted(run.glob("controls/*/results.json"))
    }
    return Recording(run.resolve().name, results, manifest, history, chain, controls, gaps)


def read_object(path: Path, name: str, gaps: list[str]) -> dict[str, Any]:
    """Read a JSON object; when there is none, say so in `gaps` and return an empty one."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = None
    except OSError as error:
        gaps.append(f"{name} cannot be read: {error}.")
        return {}
    return object_in(content, name, gaps)


def object_in(content: bytes | None, name: str, gaps: list[str]) -> dict[str, Any]:
    """The JSON object that a file holds, None where there is no file; gaps as of `read_object`."""
    if content is None:
        gaps.append(f"{name} is missing.")
        return {}
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        gaps.append(f"{name} cannot be read: {error}.")
        return {}
    if not isinstance(value, dict):
        gaps.append(f"{name} does not hold a JSON object.")
    return mapping(value)


def _read_lines(path: Path, name: str, gaps: list[str]) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        gaps.append(f"{name} is missing: there is no time axis.")
        return []
    except OSError as error:
        gaps.append(f"{name} cannot be read: {error}.")
        return []
    events: list[dict[str, Any]] = []
    broken = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            broken += 1
            continue
        if isinstance(event, dict) and real(event.get("t")) is not None:
            events.append(event)
        else:
            broken += 1
    if broken:
        gaps.append(f"{name}: {broken} of {len(lines)} lines are not events and were left out.")
    # Several processes append to the file, so the order of lines is not quite the order of time.
    return sorted(events, key=lambda event: float(event["t"]))
