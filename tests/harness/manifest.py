"""`manifest.json` of a run: what is planned, before anything is sent (docs/reference/run-directory.md)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from effectively_once.driver.version import package_digest
from infra.versions import of_run
from tests.harness.commit import PRODUCT, SOURCE, git_state
from tests.harness.controls.names import EVERY, QUICK, NegativeControl
from tests.harness.evidence import Manifest, PlannedChanges, PlannedControl, PlannedFaults, PlannedWorkload, Settings
from tests.harness.schedule import Strike
from tests.harness.schemas import USER_COUNTS, SinkSchema
from tests.harness.subject import Subject


def planned_controls(controls: Sequence[NegativeControl]) -> tuple[PlannedControl, ...]:
    """As the manifest names them: each must fail."""
    return tuple(PlannedControl(name=one.name, must="fail", shows=one.shows) for one in controls)


def sorts_of(strikes: Sequence[Strike]) -> tuple[PlannedFaults, ...]:
    """As the manifest counts them: how many of each kind at each target."""
    counts = Counter((one.kind, one.target) for one in strikes)
    return tuple(
        PlannedFaults(kind=kind, target=target, count=count) for (kind, target), count in sorted(counts.items())
    )


NEGATIVE_CONTROLS, EVERY_NEGATIVE_CONTROL = planned_controls(QUICK), planned_controls(EVERY)


def code_of(checkout: Path, *others: Path) -> dict[str, str]:
    """Digests of the library, of the jobs, and of other packages or modules of a checkout, as drivers announce them."""
    places = (*(checkout / SOURCE / name for name in PRODUCT), *others)
    return {place.stem: package_digest(place) for place in places if place.exists()}


def manifest_of(
    run: str,
    claim: str,
    seed: int,
    subject: Subject,
    *,
    checkout: Path,
    pipeline: str,
    topic: str,
    shards: int,
    strikes: Sequence[Strike],
    controls: Sequence[PlannedControl] = (),
    named: Mapping[str, str] | None = None,
    schemas: Mapping[str, SinkSchema] = USER_COUNTS,
    code: Mapping[str, str] | None = None,
    changes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The document of a run that is about to begin.

    Args:
        run: its name.
        claim: the sentence that the report shows.
        seed: what the subject and the faults were drawn from.
        subject: what will be sent.
        checkout: whose commit is noted.
        pipeline: as its settings name it, as `topic` and `shards`.
        topic: the source.
        shards: of every sink.
        strikes: what is done, all of which has to hit.
        controls: what is played beside it.
        named: settings that no verdict depends on.
        schemas: of all its sinks.
        code: digests of what drivers will run, by package; None: that of the checkout.
        changes: how many of each name are made while it runs; None: none.

    Raises:
        ValidationError: a field is not what the judge will read (tests.harness.evidence.Manifest).
    """
    workload = {"kind": subject.kind, **asdict(subject.numbers)}
    manifest = Manifest(
        format=1,
        run=run,
        claim=claim,
        seed=seed,
        started_at=time.time_ns() // 1_000_000,
        settings=Settings(
            pipeline=pipeline,
            topic=topic,
            shards=shards,
            window_ms=subject.window_ms,
            lateness_ms=subject.lateness_ms,
            sinks=tuple(schemas),
            gateways=subject.gateways,
        ),
        workload=PlannedWorkload.model_validate(workload, extra="forbid"),
        faults_planned=len(strikes),
        faults=sorts_of(strikes),
        changes=tuple(PlannedChanges(name=name, count=count) for name, count in (changes or {}).items()),
        concurrent_reader=True,
        controls=tuple(controls),
        schemas=dict(schemas),
        versions=of_run(),
        git=git_state(checkout),
        code=dict(code_of(checkout) if code is None else code),
        control=None,
    )
    document = manifest.model_dump(mode="json")
    document["settings"] |= named or {}
    return document
