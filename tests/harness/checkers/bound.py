"""Whether the files of a run are of one run: as bound, of the code that ran, of one wheel, with its own controls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.harness.checkers import binding, changes, origin, provenance
from tests.harness.checkers.case import Case
from tests.harness.checkers.vacuity import guard
from tests.harness.controls.names import EVERY
from tests.harness.evidence import Manifest
from tests.harness.results import Oracle
from tests.harness.run_directory import RunDirectory

NAME = "bound"
KEPT = ("docs", "evidence")
"""Folder of what is kept as evidence: of a clean tree alone."""


def judge(case: Case) -> Oracle:
    """Demand that nothing came from elsewhere, or was changed since the run ended."""
    manifest, run = case.manifest, case.run
    if complaints := binding.complaints(run.path):
        return guard(NAME, "", complaints)
    complaints += origin.contradictions(manifest, case.events)
    complaints += provenance.contradictions(manifest, case.events, run.path)
    wheels = {record.wheel_digest for record in case.chain.epochs} - changes.find_wheels(case.events)
    complaints += [f"epochs have {len(wheels)} different wheel_digests"] * (len(wheels) > 1)
    seen: dict[bytes, str] = {}
    for planned in manifest.controls:
        control = run.control(planned.name)
        if control.path.is_dir():
            complaints += _foreign(manifest, control, planned.name)
            complaints += _find_copied(control, planned.name) if planned.must == "fail" else []
            sent = control.sent_path.read_bytes()
            if (other := seen.setdefault(sent, planned.name)) != planned.name:
                complaints.append(f"controls {other} and {planned.name} sent the same: one is a copy of the other")
    if manifest.git.get("dirty") is not False and _is_kept(run.path):
        complaints.append("its tree had changes that no commit has, and it is kept as evidence: run a clean one")
    root = str(binding.root_of(run.path))
    told = provenance.CONFIRM if provenance.is_told(manifest, case.events) else provenance.UNTOLD
    return guard(NAME, f"all files are as they were bound, root {root[:12]}; {told}", complaints)


def _foreign(manifest: Manifest, control: RunDirectory, name: str) -> list[str]:
    """Describe by what a control shows that it is of another run, commit or version."""
    own = control.manifest()
    due = {"run": f"{manifest.run}/{name}", "git": manifest.git, "versions": manifest.versions}
    return [
        f"control {name}: {field} is {getattr(own, field)}, of this run it is {meant}"
        for field, meant in due.items()
        if getattr(own, field) != meant
    ]


def _find_copied(control: RunDirectory, name: str) -> list[str]:
    """Describe copies in the input of a control that has to double what came once."""
    ids = Counter(send.id for send in control.sends())
    copies = sum(ids.values()) - len(ids)
    meant = any(one.copies for one in EVERY if one.name == name)
    return [f"control {name} was sent {copies} copies: its output doubles of itself"] if copies and not meant else []


def _is_kept(run: Path) -> bool:
    parts = run.resolve().parts
    return any(parts[at : at + len(KEPT)] == KEPT for at in range(len(parts)))
