"""What `make acceptance SUITE=jobs JOB=optimisations` plays: fusion and combiner lifting on and off, in pods."""

from __future__ import annotations

from tests.experiments.experiment import Experiment
from tests.experiments.optimisations.claims import claims
from tests.experiments.optimisations.figures import figures
from tests.experiments.optimisations.page import PAGE, Optimisations
from tests.experiments.optimisations.plan import ACTORS, Plan
from tests.experiments.optimisations.play import play

EXPERIMENT = Experiment(
    name="optimisations",
    plan=Plan,
    arms=lambda _: [actor.name for actor in ACTORS],
    play=play,
    figures=figures,
    claims=claims,
    results=Optimisations,
    page=PAGE,
)
