"""A slice of the alterations, and that each is one."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import pytest

from tests.depth import examples
from tests.harness.checkers.provenance import is_told
from tests.harness.run_directory import RunDirectory
from tests.tampered import run, season
from tests.tampered.alterations import Alteration, Files, plan
from tests.tampered.bases import MADE_UP, RECORDED_RUN, make_bases, read_bases
from tests.tampered.harmless import HARMLESS
from tests.tampered.matrix import markdown, stale
from tests.tampered.places import Place, matches
from tests.tampered.trial import Trial, Tried
from tests.tampered.values import OPERATIONS, SAME, changed

SEED, COUNT, OF_RECORDED = 1, examples(160), examples(40)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the runs that are tampered with."""
    return make_bases(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def files(bases: dict[str, Path]) -> Files:
    """Return their files."""
    return read_bases(bases)


@pytest.mark.deep
def test_a_slice_of_the_alterations_is_caught(bases: dict[str, Path], files: Files, tmp_path: Path) -> None:
    trial = Trial(bases, files, tmp_path)
    drawn = plan(files, SEED, 4 * COUNT)
    # Those of runs that were made up are judged ten times as fast.
    recorded = [one for one in drawn if one.run == RECORDED_RUN][:OF_RECORDED]
    made_up = [one for one in drawn if one.run != RECORDED_RUN][: COUNT - OF_RECORDED]
    tried = [trial.of(one) for one in (*recorded, *made_up)]
    assert len(tried) == COUNT
    assert not [f"{one.alteration}: {one.objecting or 'nobody objected'}" for one in tried if one.lost]


def test_every_alteration_changes_what_is_read(files: Files) -> None:
    drawn = plan(files, 2, 400)
    assert [one.number for one in drawn] == list(range(400))
    assert drawn == plan(files, 2, 400)
    for one in drawn:
        evidence = files[one.run][one.file]
        assert one.applied(evidence) != evidence.raw


@pytest.mark.deep
def test_all_files_of_all_runs_are_altered(files: Files) -> None:
    drawn = {(one.run, one.file) for one in plan(files, 3, 4000)}
    assert drawn == {(run, name) for run, of_run in files.items() for name in of_run}


@pytest.mark.parametrize("value", [1, 1.5, True, None, "", "text", [], [1, 2], {}, {"a": None}])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_makes_another_value_or_none(value: object, operation: str) -> None:
    document = {"field": value}
    found = changed(document, ("field",), operation, [7, "other"], Random(1))
    assert found is SAME or repr(found) != repr({"field": value})
    assert repr(document) == repr({"field": value})


def test_what_nobody_objects_to_is_lost_unless_it_is_listed() -> None:
    alteration = Alteration(5, MADE_UP, "sent.jsonl", "fresh.id", "dropped", Place(0, ("id",)), bound=True, seed=1)
    passed, other = Tried(alteration, (), ""), Tried(alteration, ("quiet",), "no end")
    listed = Tried(alteration, (), "", HARMLESS[0])
    assert passed.lost
    assert other.lost
    assert not listed.lost
    assert not Tried(alteration, ("multiset", "quiet"), "").lost
    page = markdown([passed, listed], "--seed 1 --count 10")
    assert "- **lost**: 5: made-up/sent.jsonl: fresh.id: dropped (line 1, id) (nobody objected; " in page
    assert "`--seed 1 --count 10 --number 5`" in page
    assert stale([Tried(alteration, ("multiset",), "", HARMLESS[1]), listed]) == [HARMLESS[1]]


@pytest.mark.parametrize(
    ("pattern", "name", "is_of_it"),
    [("a[].b", "a[].b", True), ("a[].*", "a[].b", True), ("x|a*", "a.b", True), ("a", "a.b", False)],
)
def test_brackets_of_names_stand_for_themselves(pattern: str, name: str, is_of_it: bool) -> None:
    assert matches(pattern, name) is is_of_it


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--count", "0"], "'--count': Input should be greater than or equal to 1"),
        (["--seed", "x"], "'--seed'"),
        (["--out", __file__], "is a file"),
    ],
)
def test_arguments_are_checked_before_work_begins(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(season, "go", lambda *_: pytest.fail("work began"))
    assert run.main(arguments) == 2
    assert says in capsys.readouterr().err


def test_the_recorded_run_tells_all_that_runs_tell_today(bases: dict[str, Path]) -> None:
    run = RunDirectory(bases[RECORDED_RUN])
    assert is_told(run.manifest(), run.events())
    assert all("announced_at" in one for one in run.events() if one["event"] == "fault"), "record it anew"


def test_what_a_process_found_can_be_handed_to_another() -> None:
    assert pickle.loads(pickle.dumps(HARMLESS)) == HARMLESS  # noqa: S301 - made here
