"""What a restore promises of each part, and what a drill has to have shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.experiments.drill.figures import FIRST, Figures
from tests.experiments.drill.plan import CLUSTER, Plan
from tests.experiments.figures import Claim, guard, promise

STARTS, REFUSED = 0, 65
"""Exit codes of `restore`: a driver would start; its input was deleted and made anew."""


def claims(found: Sequence[Figures], _: Plan) -> list[Claim]:
    """Every promise and every guard, with what was found."""
    return [claim for one in found for claim in (*_promises(one), *_guards(one))]


def _promises(one: Figures) -> Iterator[Claim]:
    name = one.part
    yield promise(name, "has every record of the backup", not one.missing, _some(one.missing, one.in_backup))
    told = ", ".join(f"{sink} lacks {rows:,}" for sink, rows in one.rows_missing.items())
    yield promise(name, "has every row of the backup", not one.rows_missing, told or "none is missing")
    yield promise(name, "has no record twice", not one.doubled, _some(one.doubled, one.in_backup + one.came_after))
    yield promise(name, "shows nothing that was not sent", not one.phantoms, f"{len(one.phantoms):,} phantoms")
    yield promise(name, "counts each window once and right", not one.wrong, _some(one.wrong, one.windows))
    says = "publishes every record that was sent after the destruction"
    yield promise(name, says, not one.unpublished, _some(one.unpublished, one.sent_later))
    if name == CLUSTER:
        yield promise(name, "restored, is refused another input", one.code == REFUSED, f"exit code {one.code}")
    else:
        says = "loses no record: the input had all that came after the backup"
        yield promise(name, says, one.lost == 0, f"{one.lost:,} of {one.came_after:,} lost")
        yield promise(name, "restored, starts as it is", one.code == STARTS, f"exit code {one.code}: {one.says}")


def _guards(one: Figures) -> Iterator[Claim]:
    name = one.part
    yield guard(name, "the backup had records", one.in_backup > 0, f"{one.in_backup:,}")
    yield guard(name, "records came after it", one.came_after > 0, f"{one.came_after:,}")
    yield guard(name, "the sinks were ahead of it", one.ahead > 0, f"by {one.ahead} epochs")
    yield guard(name, "windows were counted", one.windows > 0, f"{one.windows:,}")
    yield guard(name, "records were sent after the destruction", one.sent_later > 0, f"{one.sent_later:,}")
    if name == CLUSTER:
        yield guard(name, "something was lost", one.lost > 0, f"{one.lost:,}")


def _some(wrong: Sequence[str], of: int) -> str:
    first = f", first {'; '.join(wrong[:FIRST])}" if wrong else ""
    return f"{len(wrong):,} of {of:,}{first}"
