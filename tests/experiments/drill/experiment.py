"""What `make drill` plays: bucket, topic and everything destroyed, each restored from a backup."""

from __future__ import annotations

from tests.experiments.drill.claims import claims
from tests.experiments.drill.figures import figures
from tests.experiments.drill.page import PAGE, Drill
from tests.experiments.drill.plan import Plan
from tests.experiments.drill.play import play
from tests.experiments.experiment import Experiment
from tests.harness.stack.embedded import QUICK

EXPERIMENT = Experiment(
    name="drill",
    plan=Plan,
    arms=lambda plan: plan.parts,
    play=play,
    figures=figures,
    claims=claims,
    results=Drill,
    page=PAGE,
    small={"pace": 100, "before_s": 6, "between_s": 4, "after_s": 4},
    jvm=QUICK,
)
