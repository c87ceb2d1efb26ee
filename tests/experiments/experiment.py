"""What an experiment is: what it plays, its figures and claims, and its page; and a run of it, judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson

from infra.console import Console
from tests.experiments import page as pages
from tests.experiments import run_folder
from tests.experiments.figures import FACTS, Claim, Figures, verdict
from tests.experiments.page import Page
from tests.experiments.plan import plan_of
from tests.experiments.results import TOLD, Results
from tests.experiments.run_folder import MANIFEST, PAGE, RESULTS, TABLE
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.embedded import LASTING

P = TypeVar("P")
F = TypeVar("F", bound=Figures)


@dataclass(frozen=True)
class Experiment(Generic[P, F]):
    """One experiment.

    Attributes:
        name: of its folder, and the kind that manifests of its runs name.
        plan: a dataclass; its fields are what can be asked for.
        arms: names of what is played one after the other; each has a folder of evidence of that name.
        play: plays some of them on a stack that is there; what breaks one off is evidence.
        figures: of an arm, from a run's folder.
        claims: what the figures have to show.
        results: their class.
        page: how they are shown.
        needs: what PostgreSQL is for; None where there need be none.
        small: sizes of `--quick`, and in pods but for those of `pods`.
        jvm: JVMs that are used when nothing else is asked for.

    """

    name: str
    plan: type[P]
    arms: Callable[[P], Sequence[str]]
    play: Callable[[Path, P, Sequence[str], Any, Console], None]
    figures: Callable[[Path, P, str], Sequence[F]]
    claims: Callable[[Sequence[F], P], list[Claim]]
    results: type[Results[P, F]]
    page: Page
    needs: str | None = None
    small: Mapping[str, Any] = field(default_factory=dict)
    pods: Mapping[str, Any] = field(default_factory=dict)
    jvm: str = LASTING

    @property
    def command(self) -> str:
        """Of make, and the folder of its runs."""
        return self.name.replace("_", "-")

    def planned(self, run: Path) -> tuple[dict[str, Any], P]:
        """Read what a run was to play: its manifest, and the plan in it. Raises EvidenceError."""
        manifest = run_folder.read_manifest(run)
        try:
            return manifest, plan_of(self.plan, manifest["plan"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            todo = "name the folder of such a run below runs/"
            raise EvidenceError(f"this is no run of {self.name}: {error}", run / MANIFEST, todo) from error

    def left(self, run: Path, plan: P) -> list[str]:
        """Arms that were not played to their end."""
        return [arm for arm in self.arms(plan) if not has_ended(run / arm / FACTS)]

    def judge(self, run: Path) -> Results[P, F]:
        """Compute the results of a run from its files. Raises EvidenceError: there is no manifest that can be read."""
        manifest, plan = self.planned(run)
        arms: list[F] = []
        unread: dict[str, str] = {}
        for arm in self.arms(plan):
            try:
                if why := manifest.get("broke_off"):
                    raise EvidenceError(why, run / MANIFEST, "run again")
                found = self.figures(run, plan, arm)
            except (EvidenceError, OSError, ValueError, KeyError) as error:
                unread[arm] = str(error)
                continue
            arms += found
            if why := next((one.broke_off for one in found if one.broke_off is not None), None):
                unread[arm] = f"it broke off: {why}"
        claims = self.claims(arms, plan)
        try:
            told = {name: manifest[name] for name in TOLD}
            return self.results(
                **told, plan=plan, arms=arms, unread=unread, claims=claims, verdict=verdict(claims, whole=not unread)
            )
        except (KeyError, ValueError) as error:
            todo = "take it from where the run was recorded"
            raise EvidenceError(f"the manifest lacks something: {error}", run / MANIFEST, todo) from error

    def write(self, run: Path) -> Results[P, F]:
        """Judge a run, and write its results, its table, its page and what else its page has. Raises as `judge`."""
        results = self.judge(run)
        self.draw(run, results)
        return results

    def html(self, results: Results[P, F]) -> str:
        """Return the page of results."""
        return pages.html(self.page, results, self.command).rstrip("\n") + "\n"

    def draw(self, run: Path, results: Results[P, F]) -> None:
        """Write what is shown of results."""
        RunDirectory(run).write_json(run / RESULTS, results)
        files = {TABLE: pages.markdown(self.page, results), **self.page.files(results)}
        for name, content in {**files, PAGE: self.html(results)}.items():
            (run / name).write_text(content.rstrip("\n") + "\n")


def has_ended(facts: Path) -> bool:
    """Whether an arm was played to its end, by its facts."""
    try:
        told = orjson.loads(facts.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and told.get("broke_off", "") is None
