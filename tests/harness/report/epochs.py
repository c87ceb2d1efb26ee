"""Epochs as the history tells them: who declared one, when it was published, how often it took."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.harness.report.lenient import mapping, real, text, whole

COUNTS = ("in", "accepted", "duplicate", "late", "malformed")


@dataclass(frozen=True)
class Attempt:
    """One driver's work on one epoch: from declared to published, or to where it broke off (`published` false).

    Times are milliseconds since 1970; `counts` are the numbers of records by what became of them.
    """

    epoch: int
    driver: str
    generation: str
    declared_at: float
    ended_at: float
    published: bool
    repeat: bool
    counts: dict[str, int | None]

    @property
    def took_s(self) -> float:
        """How long it took, in seconds."""
        return max(0.0, self.ended_at - self.declared_at) / 1000


def attempts(history: Sequence[dict[str, Any]]) -> list[Attempt]:
    """Pair the declared and published events of every driver, in the order they were declared."""
    running: dict[tuple[int, str], Attempt] = {}
    done: list[Attempt] = []
    last = float(history[-1]["t"]) if history else 0.0
    for event in history:
        time = float(event["t"])
        if event.get("event") == "driver" and event.get("state") in ("stopped", "killed"):
            for key in [key for key in running if key[1] == text(event.get("pid"))]:
                done.append(replace(running.pop(key), ended_at=time))
        number = whole(event.get("epoch"))
        if event.get("event") != "epoch" or number is None:
            continue
        driver = text(event.get("driver"))
        before = running.pop((number, driver), None)
        if event.get("state") == "declared":
            if before is not None:
                done.append(replace(before, ended_at=time))
            running[number, driver] = _attempt(event, number, time, time, published=False)
        elif event.get("state") == "published":
            total_ms = real(mapping(event.get("ms")).get("total")) or 0.0
            declared_at = before.declared_at if before is not None else time - total_ms
            done.append(_attempt(event, number, declared_at, time, published=True))
    done.extend(replace(attempt, ended_at=last) for attempt in running.values())
    return sorted(done, key=lambda attempt: (attempt.declared_at, attempt.epoch, attempt.ended_at))


def first_publications(all_attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return each epoch's first publication, in the order of time: a repeat publishes no record a second time."""
    first: dict[int, Attempt] = {}
    for attempt in sorted(all_attempts, key=lambda attempt: attempt.ended_at):
        if attempt.published:
            first.setdefault(attempt.epoch, attempt)
    return list(first.values())


def notable(
    all_attempts: Sequence[Attempt], longest: int = 5, last: int = 3, odd: int = 6
) -> list[tuple[Attempt, str]]:
    """Choose the attempts worth a line of a table, each with the reason why.

    Chosen are those that repeat an epoch or broke off (at most `odd` of each), the `longest` and the `last` published.
    """
    chosen: dict[int, list[str]] = {}
    published = [at for at, attempt in enumerate(all_attempts) if attempt.published]

    def choose(positions: Sequence[int], why: str) -> None:
        for position in positions:
            chosen.setdefault(position, []).append(why)

    choose([at for at, attempt in enumerate(all_attempts) if attempt.repeat][:odd], "repeat")
    choose([at for at, attempt in enumerate(all_attempts) if not attempt.published][:odd], "broke off")
    by_length = sorted(published, key=lambda at: (-all_attempts[at].took_s, at))
    choose(by_length[:1], "longest")
    choose(by_length[1:longest], "long")
    choose(published[-last:-1], "late in the run")
    choose(published[-1:], "last")
    return [(all_attempts[at], ", ".join(chosen[at])) for at in sorted(chosen)]


def _attempt(event: dict[str, Any], epoch: int, declared_at: float, ended_at: float, *, published: bool) -> Attempt:
    return Attempt(
        epoch=epoch,
        driver=text(event.get("driver")),
        generation=text(event.get("generation")),
        declared_at=declared_at,
        ended_at=ended_at,
        published=published,
        repeat=event.get("repeat") is True,
        counts={name: whole(event.get(name)) for name in COUNTS},
    )
