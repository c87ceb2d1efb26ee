"""The figure shows a bar for each arm and a dot for every sample, and is a document of its own."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tests.bench import figure

SVG = "{http://www.w3.org/2000/svg}"
SAMPLES = {"ours": [100.0, 120.0], "Spark's < default": [50.0, 40.0, 45.0]}


def test_every_sample_is_shown_and_names_are_escaped() -> None:
    root = ET.fromstring(figure.draw("S1", "rows/s", SAMPLES))  # noqa: S314 - our own text

    assert len(root.findall(f"{SVG}circle")) == 5
    assert len(root.findall(f"{SVG}rect")) == 2
    assert "Spark's < default" in [text.text for text in root.findall(f"{SVG}text")]


def test_bars_are_in_proportion_to_medians() -> None:
    root = ET.fromstring(figure.draw("S1", "rows/s", SAMPLES))  # noqa: S314 - our own text

    ours, theirs = (float(bar.attrib["width"]) for bar in root.findall(f"{SVG}rect"))
    assert abs(ours / theirs - 110 / 45) < 0.01


def test_a_target_beyond_all_samples_is_still_inside() -> None:
    root = ET.fromstring(figure.draw("restart", "s", SAMPLES, target=400.0))  # noqa: S314 - our own text

    (line,) = (each for each in root.findall(f"{SVG}line") if each.attrib["class"] == "l")
    assert float(line.attrib["x1"]) == figure.WIDTH - figure.RIGHT
    ours = float(root.findall(f"{SVG}rect")[0].attrib["width"])
    assert abs(ours / (figure.WIDTH - figure.RIGHT - figure.LEFT) - 110 / 400) < 0.01
