"""Whether drivers ran what the manifest says: code, settings, versions, and the commit that the history names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.harness.evidence import EvidenceError, Manifest

FIELDS: Mapping[str, type] = {"code": dict, "settings": str, "versions": dict}
"""Of an announcement (`effectively_once.driver.provenance`), and what each is in JSON."""
LIBRARY = "effectively_once"
CONFIRMED = ("spark",)
"""Versions of the manifest that a driver can tell; its jars and the servers it cannot."""
GIVEN = ("settings.json", "settings-epilogue.json")
"""Files of a run directory that its drivers were started with."""
UNTOLD = "recorded before drivers announced what they run: commit, code, settings and versions are the manifest's word"
CONFIRM = "its drivers announced the manifest's code and version of Spark, and the run's settings"
Event = Mapping[str, Any]
Events = Sequence[Event]


def is_told(manifest: Manifest, events: Events) -> bool:
    """Whether the run is of a time when drivers announced what they run: manifest or history say something of it."""
    announced = any(name in event for event in _starts(events) for name in FIELDS)
    return bool(manifest.code) or announced or any("git" in event for event in events)


def contradictions(manifest: Manifest, events: Events, run: Path) -> list[str]:
    """Describe where manifest, settings files, history and drivers do not say the same of what ran.

    Args:
        manifest: of the run.
        events: its history.
        run: its directory, for the settings.

    Raises:
        EvidenceError: settings cannot be read.
    """
    if not is_told(manifest, events):
        return []
    found = [*_of_another_commit(manifest, events)]
    starts = _starts(events)
    if not starts:
        return [*found, "no driver announced what it runs"]
    if lacking := [f"{_who(one)} does not announce its {what}" for one in starts if (what := _unsaid(one))]:
        return found + lacking
    # Drivers that repair an epoch are of another job than those that could not repeat it.
    repaired = manifest.settings.repair
    for name in ("versions",) if repaired else ("code", "versions"):
        told = {json.dumps(one[name], sort_keys=True) for one in starts}
        found += [f"drivers announce {len(told)} different {name}"] * (len(told) > 1)
    for one in starts:
        found += _of_other_code(manifest, one)
        found += [
            f"the manifest says {name} {manifest.versions.get(name)}, {_who(one)} runs {one['versions'].get(name)}"
            for name in CONFIRMED
            if manifest.versions.get(name) != one["versions"].get(name)
        ]
    return list(dict.fromkeys([*found, *_of_other_settings(events, run, repaired)]))


def _starts(events: Events) -> list[Event]:
    return [one for one in events if _is_start(one)]


def _is_start(event: Event) -> bool:
    return (event["event"], event.get("state")) == ("driver", "started")


def _who(start: Event) -> str:
    return f"driver {start.get('pid')} of generation {start.get('generation')}"


def _unsaid(start: Event) -> str:
    """Name what an announcement lacks, or has as something else."""
    return ", ".join(name for name, kind in FIELDS.items() if type(start.get(name)) is not kind or not start[name])


def _of_another_commit(manifest: Manifest, events: Events) -> Iterator[str]:
    told = [one.get("git") for one in events if one["event"] == "phase" and one.get("phase") == "warm-up"]
    for one in told or [None]:
        if one != manifest.git:
            yield f"the manifest says git {manifest.git}, and the history began with {one}"


def _of_other_code(manifest: Manifest, start: Event) -> Iterator[str]:
    """Describe packages of which the manifest names other code, or none; it may name more than every driver runs."""
    code = start["code"]
    if LIBRARY not in code:
        yield f"{_who(start)} does not announce the code of {LIBRARY}"
    for name, digest in code.items():
        if (meant := manifest.code.get(name)) != digest:
            yield f"the manifest says code {str(meant)[:12]} of {name}, {_who(start)} runs {str(digest)[:12]}"


def _of_other_settings(events: Events, run: Path, repaired: bool) -> Iterator[str]:
    """Describe settings files that no driver was started with, and drivers that were started with others.

    Before the epilogue that is the first file, and those that changes gave to drivers. A repair replaces the settings
    that drivers before it had.
    """
    changed = find_changed(events)
    files = {name: digest_of(run / name) for name in (*GIVEN, *changed) if (run / name).is_file()}
    if GIVEN[0] not in files:
        yield f"{run / GIVEN[0]} is missing"
    announced = {one["settings"] for one in _starts(events)}
    yield from (f"no driver was started with {name} as it is" for name in files if files[name] not in announced)
    phases = [one.get("phase") for one in events]
    epilogue = phases.index("epilogue") if "epilogue" in phases else len(events)
    allowed = {files.get(name) for name in (GIVEN[0], *changed)}, {*files.values()}
    for at, event in enumerate(events):
        if _is_start(event) and event["settings"] not in allowed[at > epilogue] and not repaired:
            yield f"{_who(event)} has other settings than the run's"


def find_changed(events: Events) -> list[str]:
    """Return the files of settings that changes of the run gave to drivers."""
    told = (one.get("evidence") for one in events if one["event"] == "change")
    return list(dict.fromkeys(str(one["settings"]) for one in told if isinstance(one, Mapping) and "settings" in one))


def digest_of(settings: Path) -> str:
    """Digest of a file of settings as a driver computes it of what it read: of JSON with sorted names.

    Raises:
        EvidenceError: it is none.
    """
    try:
        document = orjson.loads(settings.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise EvidenceError(f"settings cannot be read ({error})", settings, "judge an unaltered run") from error
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]
