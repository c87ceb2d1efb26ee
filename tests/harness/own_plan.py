"""What is sent to a pipeline that is not one of ours, and which of its steps are struck: pure functions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.harness.faults.campaign import PORTIONS_UNDONE
from tests.harness.lengths import with_lengths
from tests.harness.mixture import FLOWING, IN_COMMIT, IN_TASKS, OPEN, NoFaultError
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.schedule import DECLARED, PlannedFault, Strike
from tests.harness.stall_sorts import DELAYED, LENGTHS_S, Steps, with_declaration
from tests.harness.subject import Subject, from_file
from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Pace
from tests.harness.workload.record import Planned

SPARE_PORTIONS = 3
LEAST_ROWS = 50
"""Of a portion: every shard is to have some, so that it announces its steps."""
EPOCHS_A_PORTION = 2


@dataclass(frozen=True)
class Rows:
    """Rows of a file as records of the pipeline's own: each as JSON; one that is none as it is, behind its number."""

    planned: Iterable[Planned]

    def __iter__(self) -> Iterator[Planned]:
        """From the first."""
        for one in self.planned:
            yield one if one.payload is None else replace(one, value=one.payload.encode())


def subject_of(path: Path, key: str, time: str, strikes: Sequence[Strike], settings: Mapping[str, Any]) -> Subject:
    """The rows of a file, cut into a portion a fault, more where records flow while one is undone, and some to spare.

    Args:
        path: the file; see `tests.harness.subject.from_file`.
        key: column that is the records' key.
        time: column of the event time, for what is said of the file alone.
        strikes: what is done.
        settings: of the pipeline: its `window_ms` and `lateness_ms`.

    Raises:
        InputError: the file is not what was said, or too short for the faults.
    """
    subject = from_file(path, key, time)
    rows = subject.numbers.sent
    portions = len(strikes) + PORTIONS_UNDONE * sum(one.kind in FLOWING for one in strikes) + SPARE_PORTIONS
    if rows < portions * LEAST_ROWS:
        raise InputError(
            f"{path}: {rows:,} rows are too few for {len(strikes)} faults: each needs records to hit an epoch with, "
            f"{portions} portions of {LEAST_ROWS} here; give {portions * LEAST_ROWS:,} rows, or ask for fewer FAULTS"
        )
    portion = rows // portions
    epoch_rows_max = max(portion // EPOCHS_A_PORTION, 1)
    lateness_ms = settings["lateness_ms"]
    # By number of records alone: which of them are late under the pipeline's own lateness is for the reference to say.
    pace = Pace(lateness_ms=lateness_ms, horizon_ms=None, max_outstanding=4 * epoch_rows_max)
    return replace(
        subject,
        says=f"{rows:,} rows of {path.name}, in portions of {portion:,}",
        source=Rows(subject.source),
        pace=pace,
        window_ms=settings["window_ms"],
        lateness_ms=lateness_ms,
        epoch_rows_max=epoch_rows_max,
        portion=portion,
    )


def plan(
    seed: int, strikes: Sequence[Strike], shards: int, said: Mapping[str, Any], lengths_s: Sequence[float] = LENGTHS_S
) -> list[PlannedFault]:
    """Every strike once, in an order and at steps drawn from the seed.

    Args:
        seed: draws.
        strikes: what is done.
        shards: of the pipeline.
        said: its declaration (tests.harness.own_given).
        lengths_s: of stalls.

    Raises:
        NoFaultError: a strike needs a step that this pipeline does not have.
    """
    rng = random.Random(f"campaign of {seed}")
    order = list(strikes)
    rng.shuffle(order)
    planned = []
    for strike in order:
        if not (steps := steps_of(strike, said)):
            raise NoFaultError(
                f"{strike.kind} of the {strike.target} needs a transaction of rows, and the pipeline has no such sink: "
                "leave it out of FAULTS"
            )
        step, sink = rng.choice(steps)
        planned.append(PlannedFault(1, step, sink, rng.randrange(shards), strike))
    return with_lengths(planned, seed, lengths_s)


def steps_of(strike: Strike, said: Mapping[str, Any]) -> Steps:
    """Steps at which a strike may come, of those that a pipeline announces in every epoch with accepted records."""
    declaration, tables = said["declaration"], said["tables"]
    commits = tuple((step, sink) for sink in said["rows"] for step in (OPEN, "committed"))
    if strike.target == RESULT_STORE:
        return tuple(one for one in commits if one[1] in tables)
    if strike.kind in IN_COMMIT:
        return tuple(one for one in commits if one[0] == OPEN and one[1] not in tables)
    decided = ("ids_decided", None) if declaration["attached"] else None
    windows = ("windows_decided", None) if declaration["aggregates"] else None
    steps = (*commits, *(one for one in (decided, windows) if one is not None))
    if strike.kind in DELAYED:
        return with_declaration(strike, steps)
    return steps if strike.target in IN_TASKS else (*steps, (DECLARED, None))
