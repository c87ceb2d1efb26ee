"""What each semantics promises, as claims of its errors; and what a run has to show for that to mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from effectively_once_jobs.system_usage.settings import ACKNOWLEDGED, AT_MOST_ONCE, CHECKPOINTED, EXACTLY_ONCE
from tests.experiments.compare.figures import Figures
from tests.experiments.compare.plan import Plan
from tests.experiments.figures import Claim, describe_sums, guard, promise

AT_LEAST_ONCE = (ACKNOWLEDGED, CHECKPOINTED)


def claims(found: Sequence[Figures], plan: Plan) -> list[Claim]:
    """Every promise and every guard, with what was found."""
    return [claim for one in found for claim in (*_promises(one), *_guards(one, plan))]


def _promises(one: Figures) -> Iterator[Claim]:
    name, whole = one.semantics, one.broke_off is None
    errors = {of: one.error(of) for of in ("transactions", "frauds")}
    told, never = ", ".join(f"{of} {error:+,}" for of, error in errors.items()), f"{one.lost:,} never counted"
    if name == AT_MOST_ONCE:
        yield promise(name, "never over-counts", max(errors.values()) <= 0, told)
        again = f"{one.processed_more:,} looked up, {one.doubled:,} counted more than once"
        yield promise(name, "processes and counts no event twice", not (one.doubled or one.processed_more), again)
    if name in AT_LEAST_ONCE and whole:
        yield promise(name, "never under-counts", min(errors.values()) >= 0, told)
        yield promise(name, "loses no event", one.lost == 0, never)
    if name == CHECKPOINTED and whole:
        state = "none" if one.state is None else f"{one.state.transactions:,} and {one.state.frauds:,}"
        says = "has the state of its operator right, whatever was done outside of it"
        yield promise(name, says, one.state == one.due, state)
    if name == EXACTLY_ONCE:
        yield promise(name, "counts no event twice", one.doubled == 0, f"{one.doubled:,} twice")
    if name == EXACTLY_ONCE and whole:
        yield promise(name, "equals", not any(errors.values()), told)
        yield promise(name, "loses no event", one.lost == 0, never)
        says = "accounts for every record: in = on time + late + duplicate + malformed"
        yield promise(name, says, bool(one.records) and not one.complaints, describe_sums(one.records, one.complaints))
    says = "counts nothing that was not sent, nor otherwise than the result store has it"
    yield promise(name, says, one.phantoms == 0, f"{one.phantoms:,} phantoms")


def _guards(one: Figures, plan: Plan) -> Iterator[Claim]:
    def at_least(says: str, number: int, least: int, of: str) -> Claim:
        return guard(one.semantics, says, number >= least, f"{number:,} {of}")

    yield at_least("events were sent", one.due.frauds, 1, "frauds among them")
    kills = plan.kills + plan.driver_kills
    yield at_least("something was to fail", kills + (plan.rate > 0), 1, "sorts of failures and kills")
    yield at_least("every kill hit a running batch", one.kills_hit, kills, f"of {kills}")
    if plan.rate > 0:
        yield at_least("look-ups failed", one.failed_look_ups, 1, f"of {one.look_ups:,}")
    if one.semantics == AT_MOST_ONCE:
        yield at_least("events were lost", one.lost, 1, "never counted")
    elif one.semantics == EXACTLY_ONCE:
        yield at_least("events were processed again", one.processed_more, 1, "looked up more than once")
    else:
        yield at_least("events were counted again", one.doubled, 1, "counted more than once")
    if one.semantics == ACKNOWLEDGED:
        yield at_least(
            "replays came out of order", one.replayed_late, 1, "in a later batch than a later one of their user"
        )
