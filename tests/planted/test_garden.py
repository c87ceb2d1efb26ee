"""The planted bugs fit the product as it is, so that the garden cannot rot unnoticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.planted.garden import BUGS, PIPELINES, SERVERS, UNIT, Bug, Edit, GardenError, pick, read_garden

GARDEN = read_garden()
ENTRY = """
[[bug]]
name = "one"
breaks = "R6"
file = "windows.py"
old = "<= watermark_ms"
new = "< watermark_ms"
tests = ["tests/unit/library/test_windows.py"]
"""


def garden(tmp_path: Path, text: str) -> list[Bug]:
    (tmp_path / "area.toml").write_text(text)
    return read_garden(tmp_path)


def test_what_each_bug_replaces_is_in_the_product_exactly_once() -> None:
    """With the bug the file is still Python: a suite that cannot begin catches nothing."""
    for bug in GARDEN:
        for edit in bug.edits:
            text = edit.applied((CHECKOUT / edit.path).read_text())
            if edit.path.suffix == ".py":
                compile(text, f"{bug.id}: {edit.file}", "exec")


def test_each_bug_names_tests_that_are_there() -> None:
    for bug in GARDEN:
        for test in bug.tests:
            file, _, name = test.partition("::")
            assert (CHECKOUT / file).is_file(), bug.id
            assert not name or f"def {name.partition('[')[0]}(" in (CHECKOUT / file).read_text(), bug.id
            assert (bug.run == SERVERS) == file.startswith(("tests/stack/", "tests/spark/")), bug.id


def test_every_rule_is_broken_by_some_bug() -> None:
    """Those of docs/explanation/protocol.md, but for R12, which promises nothing."""
    page = (CHECKOUT / "docs" / "explanation" / "protocol.md").read_text()
    rules = set(re.findall(r"^### (R\d+) ", page, re.MULTILINE)) - {"R12"}
    assert rules == {f"R{number}" for number in range(1, 14)} - {"R12"}, "the headings of the rules changed"
    broken = {rule for bug in GARDEN for rule in re.findall(r"R\d+", bug.breaks)}
    assert rules <= broken, rules - broken
    assert len(GARDEN) >= 120


def test_no_two_bugs_are_one() -> None:
    assert len({(bug.edits, bug.run) for bug in GARDEN}) == len(GARDEN)


@pytest.mark.parametrize(("text", "number"), [("", 0), ("a = b\na = b\n", 2)])
def test_a_bug_that_does_not_fit_any_more_says_what_to_correct(text: str, number: int, tmp_path: Path) -> None:
    (bug,) = garden(tmp_path, ENTRY.replace('"<= watermark_ms"', '"a = b"'))
    package = tmp_path / "pipelines" / "src" / "effectively_once"
    package.mkdir(parents=True)
    (package / "windows.py").write_text(text)
    says = rf"bug area.one cannot be planted: windows.py has {number} times .* begins with 'a = b'\. .*bugs/area.toml"
    with pytest.raises(GardenError, match=says):
        bug.plant(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("tests = [", "test = [", "test"),
        ('tests = ["tests/unit/library/test_windows.py"]', "", "names its tests"),
        ("tests = [", 'run = "embedded"\ntests = [', "names none"),
        ('"< watermark_ms"', '"<= watermark_ms"', "nothing is replaced"),
        ('name = "one"', 'name = "One bug"', "name"),
        ('breaks = "R6"', 'breaks = ""', "breaks"),
        ("[[bug]]", "[[bug]", "cannot be read"),
        ("[[bug]]", "[[tree]]", "there are no bugs"),
    ],
)
def test_an_entry_that_says_too_little_or_too_much_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(GardenError, match=says):
        garden(tmp_path, ENTRY.replace(old, new))


def test_two_bugs_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GardenError, match=r"two bugs have one name: area\.one"):
        garden(tmp_path, ENTRY + ENTRY)


def test_bugs_are_picked_by_area_name_and_run() -> None:
    assert {bug.area for bug in pick(GARDEN, ["catalog"])} == {"catalog"}
    assert [bug.id for bug in pick(GARDEN, ["windows.emitted-again"])] == ["windows.emitted-again"]
    assert pick(GARDEN, []) == GARDEN
    assert {bug.run for bug in pick(GARDEN, [], UNIT)} == {UNIT}
    with pytest.raises(GardenError, match=r"there is no bug or area katalog; areas are abandon, absorbed, aggregates"):
        pick(GARDEN, ["katalog"])
    with pytest.raises(GardenError, match="run of the kind embedded"):
        pick(GARDEN, ["gateway"], "embedded")


def test_the_wheel_holds_none_of_them() -> None:
    """They are below tests/; what the wheel is made of names no garden."""
    assert PIPELINES not in BUGS.parents
    assert "planted" not in (PIPELINES / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("file", "path", "whole"),
    [
        ("jvm/a/B.java", "pipelines/jvm/a/B.java", False),
        ("jobs/a/b.py", "pipelines/src/effectively_once_jobs/a/b.py", False),
        ("a/b.py", "pipelines/src/effectively_once/a/b.py", False),
        ("infra/a/b.py.j2", "infra/a/b.py.j2", True),
        ("cli/demo.py", "tests/cli/demo.py", True),
        ("judge/absorbed.py", "tests/harness/absorbed.py", True),
    ],
)
def test_a_file_is_named_by_the_part_of_the_checkout_that_it_is_in(file: str, path: str, whole: bool) -> None:
    edit = Edit(file=file, old="a", new="b")
    assert (edit.path, edit.whole) == (Path(path), whole)
