"""What each semantics promises, as signs of its errors; and what a run has to have shown for that to mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from effectively_once_jobs.system_usage.settings import (
    ACKNOWLEDGED,
    ALL,
    AT_MOST_ONCE,
    CHECKPOINTED,
    EXACTLY_ONCE,
    Semantics,
)
from tests.experiments.compare.figures import Figures
from tests.experiments.compare.plan import Plan
from tests.experiments.figures import Said
from tests.experiments.figures import verdict as judged_as
from tests.harness.checkers import adding_up
from tests.harness.results import Verdict

AT_LEAST_ONCE = (ACKNOWLEDGED, CHECKPOINTED)


class Sign(Said):
    """A sentence about one semantics."""

    semantics: Semantics


def signs(found: Sequence[Figures], plan: Plan) -> list[Sign]:
    """Every promise and every guard, with what was found."""
    return [sign for one in found for sign in (*_promises(one), *_guards(one, plan))]


def verdict(found: Sequence[Figures], judged: Sequence[Sign]) -> Verdict:
    """Fail for a promise that does not hold, unknown for a guard, or for a semantics that was not played to its end."""
    whole = {one.semantics for one in found if one.broke_off is None} == {*ALL}
    return judged_as(judged, whole=whole)


def _promises(one: Figures) -> Iterator[Sign]:
    errors = {of: one.error(of) for of in ("transactions", "frauds")}
    told = ", ".join(f"{of} {error:+,}" for of, error in errors.items())
    name = one.semantics
    if name == AT_MOST_ONCE:
        yield Sign(semantics=name, says="never over-counts", holds=max(errors.values()) <= 0, found=told)
        yield Sign(
            semantics=name,
            says="processes and counts no event twice",
            holds=one.doubled == 0 and one.processed_more == 0,
            found=f"{one.processed_more:,} looked up, {one.doubled:,} counted more than once",
        )
    if name in AT_LEAST_ONCE and one.broke_off is None:
        yield Sign(semantics=name, says="never under-counts", holds=min(errors.values()) >= 0, found=told)
        yield Sign(semantics=name, says="loses no event", holds=one.lost == 0, found=f"{one.lost:,} never counted")
    if name == CHECKPOINTED and one.broke_off is None:
        yield Sign(
            semantics=name,
            says="has the state of its operator right, whatever was done outside of it",
            holds=one.state == one.due,
            found="none" if one.state is None else f"{one.state.transactions:,} and {one.state.frauds:,}",
        )
    if name == EXACTLY_ONCE:
        yield Sign(semantics=name, says="counts no event twice", holds=one.doubled == 0, found=f"{one.doubled:,} twice")
    if name == EXACTLY_ONCE and one.broke_off is None:
        yield Sign(semantics=name, says="equals", holds=not any(errors.values()), found=told)
        yield Sign(semantics=name, says="loses no event", holds=one.lost == 0, found=f"{one.lost:,} never counted")
        parts = ", ".join(f"{one.records.get(part, 0):,} {part}" for part in adding_up.PARTS)
        yield Sign(
            semantics=name,
            says="accounts for every record: in = on time + late + duplicate + malformed",
            holds=bool(one.records) and not one.complaints,
            found=one.complaints[0] if one.complaints else f"{one.records.get('in', 0):,} = {parts}",
        )
    yield Sign(
        semantics=name,
        says="counts nothing that was not sent, nor otherwise than the result store has it",
        holds=one.phantoms == 0,
        found=f"{one.phantoms:,} phantoms",
    )


def _guards(one: Figures, plan: Plan) -> Iterator[Sign]:
    def guard(says: str, number: int, least: int, of: str) -> Sign:
        return Sign(semantics=one.semantics, says=says, holds=number >= least, found=f"{number:,} {of}", promise=False)

    yield guard("events were sent", one.due.frauds, 1, "frauds among them")
    kills = plan.kills + plan.driver_kills
    yield guard("something was to fail", kills + (plan.rate > 0), 1, "sorts of failures and kills")
    yield guard("every kill hit a running batch", one.kills_hit, kills, f"of {kills}")
    if plan.rate > 0:
        yield guard("look-ups failed", one.failed_look_ups, 1, f"of {one.look_ups:,}")
    if one.semantics == AT_MOST_ONCE:
        yield guard("events were lost", one.lost, 1, "never counted")
    elif one.semantics == EXACTLY_ONCE:
        yield guard("events were processed again", one.processed_more, 1, "looked up more than once")
    else:
        yield guard("events were counted again", one.doubled, 1, "counted more than once")
    if one.semantics == ACKNOWLEDGED:
        yield guard(
            "replays came out of order", one.replayed_late, 1, "in a later batch than a later one of their user"
        )
