"""Both judges come to a pass of a user's file with every poison, and the epilogue of a file is no false alarm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.act import Act
from tests.harness.collector import USER_COUNTS, Outputs
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.harness.subject import Subject, from_file, seeded
from tests.harness.workload import poison
from tests.harness.workload.record import Planned
from tests.second_judge.program import ask
from tests.unit.harness.poisoned import run_of
from tests.unit.harness.tamper import lines_of

RUN = "20261120-170301-7"
ROWS = 900
OWN = replace(USER_COUNTS, transform=lambda *_: None)


def plain(folder: Path) -> Subject:
    """A row a second, in order."""
    path = folder / "plain.jsonl"
    path.write_text("".join(f'{{"k": "u{n % 7}", "t": {1_750_000_000 + n}}}\n' for n in range(ROWS)))
    return from_file(path, "k", "t")


def test_both_judges_pass_a_run_of_the_poisoned_file(tmp_path: Path) -> None:
    """All is sent again when its windows are closed: then a record in time is a dead letter too, byte for byte."""
    path = tmp_path / "poison.jsonl"
    poison.write(path, poison.lines(1_600))
    subject = from_file(path, poison.KEY, poison.TIME)
    run = run_of(tmp_path / RUN, subject)
    results = judge(run, write=False, second=ask)
    assert results.reasons == ()
    assert results.verdict is Verdict.PASS
    letters = lines_of(run / "observed" / "dead_letter.jsonl")
    sources = {tuple(row["source"]): row["reason"] for row in letters}
    malformed = [row for row in lines_of(run / "sent.jsonl") if row["kind"] == "malformed"]
    found = [sources[row["topic"], row["partition"], row["offset"]] for row in malformed]
    assert found == [row["reason"] for row in malformed]
    assert len(found) == subject.numbers.malformed_sent
    assert {row["encoding"] for row in letters} == {"utf-8", "base64"}


def test_windows_that_a_file_ends_are_closed_before_the_epilogue_looks_at_its_outputs(tmp_path: Path) -> None:
    """The epoch after a file's last one closes windows: it is not to be the one that follows a restart."""
    subject = plain(tmp_path)
    assert judge(run_of(tmp_path / "settled" / RUN, subject), write=False).verdict is Verdict.PASS
    unsettled = judge(run_of(tmp_path / "unsettled" / RUN, subject, settled=False), write=False)
    assert [one.name for one in unsettled.oracles if one.verdict is not Verdict.PASS] == ["epilogue"]


class _Sent:
    """A sender that has sent records in time."""

    last_event_time_ms = 1_750_000_000_000


@pytest.mark.parametrize(
    ("kind", "outputs", "number"), [("file", USER_COUNTS, ROWS), ("seeded", USER_COUNTS, 2_000), ("file", OWN, None)]
)
def test_a_run_of_user_counts_is_settled_and_nothing_else(
    kind: str, outputs: Outputs, number: int | None, tmp_path: Path
) -> None:
    """A pipeline of one's own gets no record but those of the file."""
    played = Act.__new__(Act)
    played.outputs = outputs
    played.subject = plain(tmp_path) if kind == "file" else seeded(7, 2_000)
    settlers: list[Planned] = list(played._settlers(_Sent()))  # type: ignore[arg-type]
    assert [one.n for one in settlers] == [number] * (number is not None)
