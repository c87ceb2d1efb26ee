"""A run of a job in pods, from its folder to the end of its play: what the jobs' `pods.py` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.console import Console
from infra.toolchain.prepare import CHECKOUT
from tests.experiments.command import begun
from tests.experiments.page import IN_PODS
from tests.experiments.pods import PodGround, pods
from tests.harness.play.room import Found

if TYPE_CHECKING:
    from rich.console import Console as Out


def in_pods(
    job: str,
    seed: int,
    console: Console,
    play: Callable[[Path, PodGround], None],
    *,
    runs: str,
    plan: Mapping[str, Any],
    needs: str | None,
) -> Path:
    """Play a job on the cluster that this machine's state directory or KUBECONFIG names; the folder of the run.

    Args:
        job: its name.
        seed: of the run.
        console: tells what is under way.
        play: plays it.
        runs: folder of its runs, below `runs/`.
        plan: what is played, as the manifest tells it.
        needs: what PostgreSQL is for; None where there need be none.

    Raises:
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
        RunError: the platform has no PostgreSQL, and one is needed.
    """
    found = Found.here(console)
    found.target()
    command = f"make acceptance SUITE=jobs JOB={job} SEED={seed}"
    path = begun(CHECKOUT / "runs" / runs, seed, command, plan, IN_PODS)
    console.say(f"run {path.relative_to(CHECKOUT)}")
    with pods(path, seed, console, found, needs) as ground:
        play(path, ground)
    return path


def printed(text: str, out: Out) -> None:
    """Print tables as they are."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)
