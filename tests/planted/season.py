"""Plays the bugs of a garden one by one, the correct product before them, and keeps what came of each.

What was kept is taken when product, tests and entry are the same: an interrupted season goes on where it was.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tests.planted.embedded import copy_checkout, play_campaign
from tests.planted.garden import EMBEDDED, PIPELINES, SERVERS, Bug, GardenError, Run
from tests.planted.sighting import Sighting
from tests.planted.state import digest_of
from tests.planted.suite import play_in_copy, play_suite, play_with_servers

SEEDS = (1, 2, 3)
CORRECT = "the correct product"
Say = Callable[[str], object]
PlaySuite = Callable[[Path, Sequence[str], int, Path], Sighting]
PlayCampaign = Callable[[Path, int, Path], Sighting]


class Played(BaseModel):
    """What came of a bug, or of the correct product.

    Attributes:
        digest: of what it depends on.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bug: str
    breaks: str
    digest: str
    sightings: tuple[Sighting, ...]

    @property
    def caught(self) -> bool:
        """Whether every seed refuted it."""
        return all(seen.how == "caught" for seen in self.sightings)

    @property
    def passed(self) -> bool:
        """Whether no seed refuted it."""
        return all(seen.how == "passed" for seen in self.sightings)


@dataclass
class Season:
    """A season of the garden.

    Attributes:
        at: folder that keeps what came of each bug.
        say: is told how far it is.
        suite: plays tests against a folder of sources.
        in_copy: plays tests of a copy of the checkout that need no server; takes its folder of sources as well.
        with_servers: plays tests of a copy of the checkout, servers among them.
        campaign: plays a campaign in such a copy.

    """

    at: Path
    say: Say
    suite: PlaySuite = play_suite
    in_copy: PlaySuite = play_in_copy
    with_servers: PlaySuite = play_with_servers
    campaign: PlayCampaign = play_campaign

    def go(self, bugs: Sequence[Bug]) -> list[Played]:
        """Play the correct product, then each bug.

        Raises:
            GardenError: the correct product is refuted, a bug cannot be planted, or no test ran.

        """
        for run, tests in by_area(bugs):
            self._correct(run, tests)
        found = []
        for number, bug in enumerate(bugs, start=1):
            played = self._kept(bug.id, digest_of(bug)) or self._keep(bug.id, self._played(bug))
            found.append(played)
            last = played.sightings[-1]
            seeds = f", {len(played.sightings)} seeds" if len(played.sightings) > 1 else ""
            sign = "✓" if played.caught else "✗"
            self.say(f"{sign} {number}/{len(bugs)} {bug.id}: {last.how} by {last.by or 'nobody'}{seeds}")
        return found

    def _correct(self, run: Run, tests: tuple[str, ...]) -> None:
        plan = Bug.model_construct(name="correct", area=CORRECT, breaks="", edits=(), run=run, tests=tests)
        name = f"correct-{plan.digest()[:12]}"
        played = self._kept(name, digest_of(plan)) or self._keep(name, self._played(plan))
        if not played.passed:
            seen = next(seen for seen in played.sightings if seen.how != "passed")
            raise GardenError(
                f"{CORRECT} is refuted (seed {seen.seed}): {seen.how} {seen.by} {seen.line}. "
                "Mend it or the test first: nothing was planted"
            )
        self.say(f"✓ {CORRECT}: {', '.join(sorted({test.partition('::')[0] for test in tests})) or 'campaign'}")

    def _played(self, bug: Bug) -> Played:
        return Played(bug=bug.id, breaks=bug.breaks, digest=digest_of(bug), sightings=self._seeds(bug))

    def _seeds(self, bug: Bug) -> tuple[Sighting, ...]:
        """Play it once, and with the other seeds where the outcome may depend on them and did not decide yet."""
        wanted = "passed" if bug.area == CORRECT else "caught"
        seen: list[Sighting] = []
        for seed in SEEDS:
            seen.append(self._once(bug, seed))
            if seen[-1].how != wanted or not seen[-1].draws:
                break
        return tuple(seen)

    def _once(self, bug: Bug, seed: int) -> Sighting:
        with tempfile.TemporaryDirectory(prefix="planted-") as name:
            folder = Path(name).resolve()
            copy, scratch = folder / "copy", folder / "scratch"
            copy.mkdir()
            scratch.mkdir()
            (copy_checkout if bug.whole else copy_sources)(copy)
            bug.plant(copy)
            if bug.run == EMBEDDED:
                return self.campaign(copy, seed, scratch)
            if bug.run == SERVERS:
                return self.with_servers(copy, bug.tests, seed, scratch)
            suite = self.in_copy if bug.whole else self.suite
            return suite(copy / "pipelines" / "src", bug.tests, seed, scratch)

    def _kept(self, name: str, digest: str) -> Played | None:
        try:
            kept = Played.model_validate_json((self.at / "plays" / f"{name}.json").read_bytes())
        except (OSError, ValidationError):
            return None
        return kept if kept.digest == digest else None

    def _keep(self, name: str, played: Played) -> Played:
        path = self.at / "plays" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(played.model_dump_json(indent=1) + "\n")
        beside.replace(path)
        return played


def copy_sources(to: Path) -> None:
    """Copy the product's packages, without compiled leftovers.

    A test may ask for the checkout that the product is in: it lies there as it does in one.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(PIPELINES / "src", to / "pipelines" / "src", ignore=ignore)


def by_area(bugs: Iterable[Bug]) -> list[tuple[Run, tuple[str, ...]]]:
    """Return what the bugs of each area play, by sort of run; a file whole where one of them asks for all of it."""
    areas: dict[tuple[str, Run], set[str]] = {}
    for bug in bugs:
        areas.setdefault((bug.area, bug.run), set()).update(bug.tests)
    return [
        (run, tuple(sorted(test for test in tests if "::" not in test or test.partition("::")[0] not in tests)))
        for (_, run), tests in areas.items()
    ]
