"""The objects of a rendered pipeline."""

from __future__ import annotations

from typing import Any

from tests.charts.render import Object, Rendered, render
from tests.charts.samples import pipeline


def objects(**changes: Any) -> Rendered:
    return render("streaming-pipeline", pipeline(**changes).to_helm(), "user-counts")


def application(rendered: Rendered) -> Object:
    return rendered.one("SparkApplication", "user-counts")


def job(rendered: Rendered) -> Object:
    (found,) = rendered.of("Job")
    return found
