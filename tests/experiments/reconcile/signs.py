"""What a reconciliation is judged by: what each stream promises, and what has to be seen for that to mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.experiments.figures import Said
from tests.experiments.figures import verdict as judged_as
from tests.experiments.reconcile.figures import Figures, Stream
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE, Plan
from tests.harness.checkers import adding_up
from tests.harness.results import Verdict

BATCH = "batch"
NAMES = {EXACTLY_ONCE: "exactly once", AT_LEAST_ONCE: "at least once", BATCH: "the batch run"}
BOUND = {-1: adding_up.ON_TIME, 0: adding_up.LATE, 1: adding_up.LATE}
"""Distance of the watermark from window end + allowed lateness, in ms -> what a record becomes."""


class Sign(Said):
    """A sentence about a stream, or the batch run."""

    of: str


def signs(found: Figures, plan: Plan) -> list[Sign]:
    """Every promise and every guard, with what was found."""
    exactly, plain = found.streams[EXACTLY_ONCE], found.streams[AT_LEAST_ONCE]
    return [
        Sign(
            of=BATCH,
            says="counts what the broker acknowledged, each id once, in every key and window",
            holds=found.batch_wrong == 0,
            found=f"{found.batch_wrong:,} are other",
        ),
        *_exactly(found, exactly),
        Sign(
            of=AT_LEAST_ONCE,
            says="counts nothing too few",
            holds=plain.whole.under == 0,
            found=f"{plain.whole.under:,} too few",
        ),
        *_guards(exactly, plan),
        *_guards(plain, plan),
        _guard(exactly, "records came too late, so that it is incomplete", exactly.whole.late, "refused"),
        _guard(plain, "a repeat counted records again", plain.added_again, "beyond the copies in the topic"),
    ]


def verdict(judged: Sequence[Sign]) -> Verdict:
    """Fail for a promise that does not hold, unknown for a guard."""
    return judged_as(judged, whole=bool(judged))


def _exactly(found: Figures, one: Stream) -> Iterator[Sign]:
    whole = one.whole
    rest = f"else {whole.over:,} too many, {whole.under:,} too few"
    yield Sign(
        of=EXACTLY_ONCE,
        says="differs by what it refused as late and by nothing else, in every key and window",
        holds=whole.wrong == 0,
        found=f"{whole.late:,} late explain {whole.difference:+,}; {rest}",
    )
    yield Sign(
        of=EXACTLY_ONCE,
        says="refuses as late what was sent too late, and nothing else",
        holds=found.late_otherwise == 0,
        found=f"{found.late_sent:,} sent too late, {found.late_otherwise:,} otherwise",
    )
    parts = ", ".join(f"{found.records.get(name, 0):,} {name}" for name in adding_up.PARTS)
    yield Sign(
        of=EXACTLY_ONCE,
        says="accounts for every record: in = on time + late + duplicate + malformed",
        holds=not found.complaints,
        found=found.complaints[0] if found.complaints else f"{found.records.get('in', 0):,} = {parts}",
    )
    became = {one.distance_ms: one.became for one in found.attempts}
    yield Sign(
        of=EXACTLY_ONCE,
        says="takes a record until the watermark is at window end + allowed lateness, and none then",
        holds=became == BOUND,
        found=", ".join(f"{at:+} ms {what}" for at, what in sorted(became.items())) or "nothing",
    )


def _guards(one: Stream, plan: Plan) -> Iterator[Sign]:
    yield Sign(
        of=one.name,
        says="every kill hit a running epoch",
        holds=bool(plan.kills) and one.kills_hit == plan.kills,
        found=f"{one.kills_hit} of {plan.kills}",
        promise=False,
    )
    # An executor's task is repeated within its epoch: only a driver's death has the epoch declared again.
    drivers = sum(strike.target == "driver" for strike in plan.strikes)
    yield _guard(one, "an epoch was repeated", one.repeated, "of them", max(drivers, 1))


def _guard(one: Stream, says: str, number: int, of: str, least: int = 1) -> Sign:
    return Sign(of=one.name, says=says, holds=number >= least, found=f"{number:,} {of}", promise=False)
