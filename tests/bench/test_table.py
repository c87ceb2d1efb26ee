"""Which target is met is said below a table, a missed one as plainly; a figure shows every sample."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tests.bench import figure, table
from tests.bench.table import Target

SAMPLES = {"ours": [30.0, 10.0, 20.0], "theirs": [10.0, 9.0, 11.0]}


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (Target(at_least=2.0), "ours / theirs: 2.00 (target at least 2: met)"),
        (Target(at_least=2.1), "ours / theirs: 2.00 (target at least 2.1: MISSED)"),
        (Target(at_most=1.9), "ours / theirs: 2.00 (target at most 1.9: MISSED)"),
        (None, "ours / theirs: 2.00 (reported, no target)"),
    ],
)
def test_a_ratio_is_one_of_medians_and_is_judged(target: Target | None, told: str) -> None:
    assert table.ratio(SAMPLES, "ours", "theirs", target) == told


def test_a_paired_ratio_is_the_median_of_those_of_one_round() -> None:
    samples = {"ours": [30.0, 10.0, 20.0], "theirs": [10.0, 10.0, 25.0]}

    judged = "ours / theirs: 1.00 (0.80 to 3.00; target at least 1.5: MISSED)"
    assert table.paired(samples, "ours", "theirs", Target(at_least=1.5)) == judged
    with pytest.raises(ValueError, match="shorter"):
        table.paired({**samples, "theirs": [10.0]}, "ours", "theirs")


def test_a_time_is_judged_by_its_median() -> None:
    assert table.median(SAMPLES, "ours", "ms", Target(at_most=20)) == "ours: 20.0 ms (target at most 20 ms: met)"


def test_a_table_is_markdown() -> None:
    assert table.table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_text_bars_are_as_long_as_the_medians() -> None:
    ours, theirs = table.text_bars(SAMPLES, "rows/s", width=10).splitlines()

    assert (ours.count("█"), theirs.count("█")) == (10, 5)
    assert ours.endswith("20 rows/s")


SVG = "{http://www.w3.org/2000/svg}"
BARS = {"ours": [100.0, 120.0], "Spark's < default": [50.0, 40.0, 45.0]}


def test_every_sample_is_shown_and_names_are_escaped() -> None:
    root = ET.fromstring(figure.draw("S1", "rows/s", BARS))  # noqa: S314 - our own text

    assert len(root.findall(f"{SVG}circle")) == 5
    assert len(root.findall(f"{SVG}rect")) == 2
    assert "Spark's < default" in [text.text for text in root.findall(f"{SVG}text")]


def test_bars_are_in_proportion_to_medians() -> None:
    root = ET.fromstring(figure.draw("S1", "rows/s", BARS))  # noqa: S314 - our own text

    ours, theirs = (float(bar.attrib["width"]) for bar in root.findall(f"{SVG}rect"))
    assert abs(ours / theirs - 110 / 45) < 0.01


def test_a_target_beyond_all_samples_is_still_inside() -> None:
    root = ET.fromstring(figure.draw("restart", "s", BARS, target=400.0))  # noqa: S314 - our own text

    (line,) = (each for each in root.findall(f"{SVG}line") if each.attrib["class"] == "l")
    assert float(line.attrib["x1"]) == figure.WIDTH - figure.RIGHT
    ours = float(root.findall(f"{SVG}rect")[0].attrib["width"])
    assert abs(ours / (figure.WIDTH - figure.RIGHT - figure.LEFT) - 110 / 400) < 0.01
