"""What `make compare` plays: the system-usage job under four semantics, one after the other."""

from __future__ import annotations

from effectively_once_jobs.system_usage.settings import ALL
from tests.experiments.compare.claims import claims
from tests.experiments.compare.figures import figures
from tests.experiments.compare.page import PAGE, Comparison
from tests.experiments.compare.plan import Plan
from tests.experiments.compare.play import play
from tests.experiments.experiment import Experiment

EXPERIMENT = Experiment(
    name="compare",
    plan=Plan,
    arms=lambda _: ALL,
    play=play,
    figures=figures,
    claims=claims,
    results=Comparison,
    page=PAGE,
    needs="the look-up",
    small={"warm_up": 300, "burst": 1_500, "calm": 1_000, "struck": 3_000, "kills": 1, "driver_kills": 1},
)
