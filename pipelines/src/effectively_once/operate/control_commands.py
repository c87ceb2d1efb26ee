"""Pause, drain and resume, as an operator asks for them: the wish is put, and it is told what the chain is at."""

from __future__ import annotations

import time
from collections.abc import Callable

import tenacity

from effectively_once.driver.control import State, Wish, ask, count_left, reached_ranges, read
from effectively_once.errors import ControlError
from effectively_once.ledger import chain
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.ledger.offsets import Ranges
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store.object_store import S3ObjectStore

LOOK_EVERY_S = 0.5
Say = Callable[[str], object]


def pause(settings: PipelineSettings, say: Say) -> None:
    """Ask that no further epoch is declared. Raises PipelineError."""
    _put(S3ObjectStore(settings.bucket), Layout(settings.pipeline), Wish.make(State.PAUSED), say)


def resume(settings: PipelineSettings, say: Say) -> None:
    """Ask that epochs are declared again. Raises PipelineError."""
    before = _put(S3ObjectStore(settings.bucket), Layout(settings.pipeline), Wish.make(State.RUNNING), say)
    if before is not None and before.state is State.DRAINING:
        say("a driver that stopped because of the drain has to be started again")


def drain(settings: PipelineSettings, wait_s: float, say: Say) -> None:
    """Ask that drivers publish what is in the input now, and stop; wait so many seconds for it.

    Raises:
        ControlError: it did not come about in time, or somebody asked for something else meanwhile.
        PipelineError: broker or store do not answer, or there is no input topic.

    """
    store, layout = S3ObjectStore(settings.bucket), Layout(settings.pipeline)
    wish = Wish.make(State.DRAINING, ends(settings))
    _put(store, layout, wish, say)
    if wait_s > 0:
        wait_until_drained(store, layout, wish, wait_s, say)


def ends(settings: PipelineSettings) -> Ranges:
    """First offset of every partition of the input, and the offset that a reader of committed records ends at now.

    What is in a transaction that is open now is not among them.

    Raises:
        UnreachableError: the broker does not answer.
        SourceError: there is no such topic.

    """
    source = KafkaSource(settings)
    first = source.first_offsets()
    last = source.committed_ends(first)
    return {topic: {p: (start, last[topic][p]) for p, start in sorted(parts.items())} for topic, parts in first.items()}


def wait_until_drained(
    store: ObjectStore,
    layout: Layout,
    wish: Wish,
    wait_s: float,
    say: Say,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until the chain recorded everything up to the ends of a drain, and declares nothing.

    Raises:
        ControlError: with what is missing, and whether the chain moved; or somebody asked for something else.

    """
    seen: list[int] = []
    began = clock()

    def look() -> str:
        """Say what is missing; empty when nothing is."""
        now = run(read(layout), store)
        if now != wish:
            raise ControlError(f"somebody asked for something else meanwhile: {now}", layout.control, "Ask again.")
        head = run(chain.there(layout), store)
        missing = _say_what_is_left(head, wish)
        sequence = head.sequence if head else -1
        if sequence not in seen:
            seen.append(sequence)
            say(f"chain: {_describe_chain(head)}" + (f"; {missing}" if missing else ""))
        return missing

    missing: str = tenacity.Retrying(
        retry=tenacity.retry_if_result(bool),
        wait=tenacity.wait_fixed(LOOK_EVERY_S),
        stop=lambda _: clock() - began >= wait_s,
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else "",
    )(look)
    if missing:
        moved = "moved meanwhile" if len(seen) > 1 else "did not move meanwhile: does a driver run?"
        head = _describe_chain(run(chain.there(layout), store))
        raise ControlError(
            f"not drained within {wait_s:g} s: {missing}; {head}; the chain {moved}",
            layout.control,
            "The drain stays asked for. Wait again with drain, or take it back with resume.",
        )
    say("drained")


def _put(store: ObjectStore, layout: Layout, wish: Wish, say: Say) -> Wish | None:
    asked = run(ask(layout, wish), store)
    say(f"was:    {'damaged' if asked.before is None else asked.before}")
    say(f"wished: {asked.now}")
    say(f"chain:  {_describe_chain(run(chain.there(layout), store))}")
    return asked.before


def _say_what_is_left(head: Head | None, wish: Wish) -> str:
    """Say what keeps a drain from being done; empty when nothing does."""
    behind = count_left(reached_ranges(head) if head else {}, wish)
    if behind:
        return "; ".join(
            f"topic {topic} has offsets left: " + " ".join(f"{p}:{number}" for p, number in sorted(parts.items()))
            for topic, parts in behind.items()
        )
    return f"epoch {head.declared.epoch} is declared" if head and head.declared else ""


def _describe_chain(head: Head | None) -> str:
    if head is None:
        return "none yet"
    recorded = f"epoch {head.last_recorded} is the last recorded" if head.last_recorded >= 0 else "no epoch is recorded"
    declared = f"epoch {head.declared.epoch} is declared" if head.declared else "none is declared"
    return f"{recorded}, {declared}, generation {head.generation}"
