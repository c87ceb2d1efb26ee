"""The publish step, against a shard in memory: every epoch's rows become visible exactly once (R8)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.errors import SinkError
from effectively_once.sinks.publish import (
    ATTEMPTS,
    Commit,
    Committed,
    EndHanging,
    FencedError,
    Mark,
    Open,
    Published,
    Publishing,
    ReadMark,
    SinkAnswer,
    SinkRequest,
    publish,
)
from tests.unit.library.driven import driven


class Outcome(StrEnum):
    """What becomes of one commit."""

    YES = "yes"
    UNKNOWN_APPLIED = "unknown, took place"
    UNKNOWN_DROPPED = "unknown, did not take place"
    FENCED = "fenced"


class Shard:
    """A shard of a sink: epochs whose rows are visible, and the last mark."""

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.visible: list[int] = []
        self.mark: Mark | None = None
        self.asked: list[str] = []
        self.hangs: list[bool] = []
        self._outcomes = list(outcomes)

    def run(self, step: Publishing) -> Published:
        return driven(step, self._answer)

    def _answer(self, request: SinkRequest) -> SinkAnswer:
        self.asked.append(type(request).__name__)
        match request:
            case Open():
                return None
            case EndHanging():
                return self.hangs.pop(0) if self.hangs else False
            case ReadMark():
                return self.mark
            case Commit(mark):
                return self._commit(mark)

    def _commit(self, mark: Mark) -> Committed:
        outcome = self._outcomes.pop(0) if self._outcomes else Outcome.YES
        if outcome in (Outcome.YES, Outcome.UNKNOWN_APPLIED):
            self.visible.append(mark.epoch)
            self.mark = mark
        return {Outcome.YES: Committed.YES, Outcome.FENCED: Committed.FENCED}.get(outcome, Committed.UNKNOWN)


def _mark(epoch: int, digest: str = "a") -> Mark:
    return Mark(epoch, 1, 5, digest)


ASKS = ["Open", "EndHanging", "ReadMark", "Commit"]


@pytest.mark.parametrize(
    ("epoch", "kept", "asked"),
    [(0, None, ASKS), (4, 3, ["EndHanging", "Commit"]), *((4, kept, ASKS) for kept in (0, 2, 4, 5, 9))],
)
def test_the_producer_at_hand_commits_the_next_epoch_without_asking_and_no_other(
    epoch: int, kept: int | None, asked: list[str]
) -> None:
    """Else one is opened, and the mark is read before the commit."""
    shard = Shard()
    shard.mark = _mark(epoch - 1) if epoch else None
    assert shard.run(publish(_mark(epoch), None if kept is None else _mark(kept), "here")) is Published.NOW
    assert shard.asked == asked


def test_an_epoch_that_is_published_is_not_published_again() -> None:
    shard = Shard()
    shard.mark = _mark(3)
    for epoch in (3, 2):
        assert shard.run(publish(_mark(epoch), None, "here")) is Published.BEFORE
    assert shard.visible == []


def test_an_epoch_that_is_published_with_other_rows_is_an_error() -> None:
    shard = Shard()
    shard.mark = _mark(3)
    with pytest.raises(SinkError, match=r"epoch 3 is published with digest a, its repeat has b.*here.*deterministic"):
        shard.run(publish(_mark(3, "b"), None, "here"))
    assert shard.visible == []


def test_a_fenced_producer_is_not_replaced() -> None:
    shard = Shard([Outcome.FENCED])
    with pytest.raises(FencedError):
        shard.run(publish(_mark(4), _mark(3), "here"))
    assert shard.asked == ["EndHanging", "Commit"]


def test_commits_that_never_end_are_given_up_with_a_name() -> None:
    shard = Shard([Outcome.UNKNOWN_DROPPED] * ATTEMPTS)
    with pytest.raises(SinkError, match=f"{ATTEMPTS} commits of epoch 0 had an unknown outcome"):
        shard.run(publish(_mark(0), None, "here"))
    assert shard.asked.count("Commit") == ATTEMPTS


@given(st.lists(st.sampled_from(Outcome), max_size=30), st.lists(st.booleans(), min_size=12, max_size=12))
def test_whatever_becomes_of_commits_every_epoch_is_visible_exactly_once(
    outcomes: list[Outcome], kept_lost: list[bool]
) -> None:
    shard = Shard(outcomes)
    kept: Mark | None = None
    epoch = 0
    for lost in kept_lost * 4:  # a task that fails is repeated, by a worker that kept a producer or by a fresh one
        if epoch == 12:
            break
        try:
            published = shard.run(publish(_mark(epoch), None if lost else kept, "here"))
        except (FencedError, SinkError):
            kept = None
            continue
        kept = _mark(epoch) if published is Published.NOW else None
        epoch += 1
    assert shard.visible == list(range(len(shard.visible)))
    assert len(shard.visible) in (epoch, epoch + 1)  # the last commit's outcome may not be known yet


@pytest.mark.parametrize(("there", "number"), [(5, 5), (None, -1)])
def test_a_sink_that_lost_epochs_while_a_driver_ran_is_refused(there: int | None, number: int) -> None:
    """A standby that lagged took over, or marks were made anew: the next epoch would hide it for good (R10)."""
    shard = Shard()
    shard.mark = _mark(there) if there is not None else None
    with pytest.raises(SinkError, match=rf"progress mark {number} lies outside the chain's 9 to 10: .*here.*Restore"):
        shard.run(publish(_mark(10), None, "here"))
    assert (shard.visible, shard.asked) == ([], ["Open", "EndHanging", "ReadMark"])


def test_a_sink_that_falls_back_during_a_commit_is_refused() -> None:
    """The broker or database that failed over is the one whose answer got lost."""
    shard = Shard([Outcome.UNKNOWN_DROPPED])
    shard.mark = _mark(5)
    with pytest.raises(SinkError, match="progress mark 5 lies outside the chain's 9 to 10"):
        shard.run(publish(_mark(10), _mark(9), "here"))
    assert shard.visible == []


def test_a_kept_producer_whose_last_commit_was_left_open_is_replaced() -> None:
    """Its next commit would decide on those rows again; who was told of the one before looks for its mark."""
    shard = Shard()
    shard.run(publish(_mark(0), None, "s"))
    shard.hangs = [True]
    shard.asked.clear()
    assert shard.run(publish(_mark(1), _mark(0), "s")) is Published.NOW
    assert shard.asked == ["EndHanging", "Open", "EndHanging", "ReadMark", "Commit"]


def test_what_hides_the_mark_is_ended_before_it_is_read() -> None:
    """What a former producer left open may be the epoch itself."""

    class Hidden(Shard):
        def _answer(self, request: SinkRequest) -> SinkAnswer:
            if isinstance(request, EndHanging):
                self.mark = _mark(0)
            return super()._answer(request)

    shard = Hidden()
    assert shard.run(publish(_mark(0), None, "s")) is Published.BEFORE
    assert shard.visible == []
