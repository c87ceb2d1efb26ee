"""What `make two-ways` plays: snapshots and dedup per operator, one arm after the other."""

from __future__ import annotations

from tests.experiments.experiment import Experiment
from tests.experiments.two_ways.claims import claims
from tests.experiments.two_ways.figures import figures
from tests.experiments.two_ways.page import PAGE, TwoWays
from tests.experiments.two_ways.plan import Plan
from tests.experiments.two_ways.play import play

EXPERIMENT = Experiment(
    name="two_ways",
    plan=Plan,
    arms=lambda plan: [arm.name for arm in plan.arms],
    play=play,
    figures=figures,
    claims=claims,
    results=TwoWays,
    page=PAGE,
    needs="the output",
    small={
        "operators": (2,),
        "kills": (0, 1),
        "warm_up": 50,
        "burst": 400,
        "paced": 200,
        "pace": 50,
        "rows_max": 100,
    },
    # To kill somebody in a pod takes longer, so the part at a pace does.
    pods={"paced": 400, "pace": 40},
)
