"""Each record of a user's file is accounted for by what became of it, and by its reason."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.checkers.case import Case
from tests.harness.judge.accounting import accounting
from tests.harness.run_directory import RunDirectory
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.tamper import change_lines


def test_every_record_is_in_one_line_and_every_refused_one_in_one_of_the_reasons(tmp_path: Path) -> None:
    run = fabricate(tmp_path / "20261126-100000-7")
    whole, *lines = accounting(run)
    found = {what: int(number.replace(",", "")) for number, what in (line.strip().split(" ", 1) for line in lines)}
    sends = [one for one in Case(RunDirectory(run)).sends if one.kind not in ("closer", "resent")]
    assert whole == f"{len(sends):,} records of the file:"
    outcomes = {"accepted", "copies of one that is accepted", "late", "refused"}
    assert found.keys() == outcomes | {"not_json", "missing_user", "bad_time", "missing_id"}
    assert sum(found[one] for one in outcomes) == len(sends)
    assert sum(number for what, number in found.items() if what not in outcomes) == found["refused"]


def test_a_refused_record_that_no_dead_letter_tells_of_is_told_as_such(tmp_path: Path) -> None:
    run = fabricate(tmp_path / "20261126-100000-7")
    before = [line for line in accounting(run) if "not_json" in line]
    letters = run / "observed" / "dead_letter.jsonl"
    change_lines(letters, lambda rows: rows.pop(next(at for at, row in enumerate(rows) if row["reason"] == "not_json")))
    after = list(accounting(run))
    assert any(re.fullmatch(r" +1 told by no dead letter", line) for line in after)
    assert [line for line in after if "not_json" in line] != before
