"""What `make reconcile` plays: two streams under the same kills, and a batch run that is held against both."""

from __future__ import annotations

from tests.experiments.experiment import Experiment
from tests.experiments.reconcile.claims import claims
from tests.experiments.reconcile.figures import figures
from tests.experiments.reconcile.page import PAGE, Reconciliation
from tests.experiments.reconcile.plan import Plan
from tests.experiments.reconcile.play import play
from tests.harness.stack.embedded import QUICK

EXPERIMENT = Experiment(
    name="reconcile",
    plan=Plan,
    arms=lambda _: ("streams",),
    play=play,
    figures=figures,
    claims=claims,
    results=Reconciliation,
    page=PAGE,
    small={"records": 2_400, "kills": 2},
    pods={"minutes": 24},
    jvm=QUICK,
)
