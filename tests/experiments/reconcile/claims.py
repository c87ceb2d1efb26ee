"""What a reconciliation is judged by: what each stream promises, and what has to be seen for that to mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.experiments.figures import Claim, describe_sums, guard, promise
from tests.experiments.reconcile.figures import BATCH, Figures, Stream
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE, Plan
from tests.experiments.strikes import DRIVER
from tests.harness.checkers import adding_up

BOUND = {-1: adding_up.ON_TIME, 0: adding_up.LATE, 1: adding_up.LATE}
"""Distance of the watermark from window end + allowed lateness, in ms -> what a record becomes."""


def claims(arms: Sequence[Figures], plan: Plan) -> list[Claim]:
    """Every promise and every guard, with what was found."""
    return [claim for found in arms for claim in _claims_of(found, plan)]


def _claims_of(found: Figures, plan: Plan) -> Iterator[Claim]:
    exactly, plain = found.streams[EXACTLY_ONCE], found.streams[AT_LEAST_ONCE]
    says = "counts what the broker acknowledged, each id once, in every key and window"
    yield promise(BATCH, says, found.batch_wrong == 0, f"{found.batch_wrong:,} are other")
    yield from _exactly(found, exactly)
    few = plain.whole.under
    yield promise(AT_LEAST_ONCE, "counts nothing too few", few == 0, f"{few:,} too few")
    for one in (exactly, plain):
        yield from _guards(one, plan)
    yield _guard(exactly, "records came too late, so that it is incomplete", exactly.whole.late, "refused")
    yield _guard(plain, "a repeat counted records again", plain.added_again, "beyond the copies in the topic")


def _exactly(found: Figures, one: Stream) -> Iterator[Claim]:
    whole = one.whole
    rest = f"else {whole.over:,} too many, {whole.under:,} too few"
    says = "differs by what it refused as late and by nothing else, in every key and window"
    yield promise(EXACTLY_ONCE, says, whole.wrong == 0, f"{whole.late:,} late explain {whole.difference:+,}; {rest}")
    says = "refuses as late what was sent too late, and nothing else"
    late = f"{found.late_sent:,} sent too late, {found.late_otherwise:,} otherwise"
    yield promise(EXACTLY_ONCE, says, found.late_otherwise == 0, late)
    says = "accounts for every record: in = on time + late + duplicate + malformed"
    yield promise(EXACTLY_ONCE, says, not found.complaints, describe_sums(found.records, found.complaints))
    says = "takes a record until the watermark is at window end + allowed lateness, and none then"
    became = {one.distance_ms: one.became for one in found.attempts}
    told = ", ".join(f"{at:+} ms {what}" for at, what in sorted(became.items())) or "nothing"
    yield promise(EXACTLY_ONCE, says, became == BOUND, told)


def _guards(one: Stream, plan: Plan) -> Iterator[Claim]:
    hit = bool(plan.kills) and one.kills_hit == plan.kills
    yield guard(one.name, "every kill hit a running epoch", hit, f"{one.kills_hit} of {plan.kills}")
    # An executor's task is repeated within its epoch: only a driver's death has the epoch declared again.
    drivers = sum(strike.target == DRIVER for strike in plan.strikes)
    yield _guard(one, "an epoch was repeated", one.repeated, "of them", max(drivers, 1))


def _guard(one: Stream, says: str, number: int, of: str, least: int = 1) -> Claim:
    return guard(one.name, says, number >= least, f"{number:,} {of}")
