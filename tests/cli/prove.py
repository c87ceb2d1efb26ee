"""The commands that strike, and those that judge."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Literal

import typer

from infra.command_line import console_out
from infra.toolchain.prepare import default_console
from tests.cli.app import PASS_ON, app, register

register(
    "chaos",
    "tests.harness.campaigns.chaos",
    "Strike every role of the embedded stack or of the cluster, judge the outputs; exit 0 pass, 1 fail, 2 unknown.",
)
register(
    "soak",
    "tests.harness.soak.__main__",
    "A campaign of hours in parts, resumable; exit 0 pass, 1 fail, 2 unknown or not all run.",
)
register(
    "report",
    "tests.cli.report",
    "Draw a run's page, the index of runs, or the sum of a campaign that was run in parts.",
)


def _experiment(name: str, says: str) -> None:
    """Register the command of an experiment, which knows its options itself."""

    @app.command(name.replace("_", "-"), help=says, context_settings={**PASS_ON, "help_option_names": []})
    def _(context: typer.Context) -> None:
        from tests.experiments import command, kinds  # noqa: PLC0415 - commands that need less start sooner

        raise typer.Exit(command.main(kinds.experiment(name), context.args))


_experiment(
    "compare",
    "System usage under four semantics, same records and kills; exit 0 pass, 1 fail, 2 unknown.",
)
_experiment(
    "two_ways",
    "Snapshots and dedup per operator under the same kills; exit 0 pass, 1 fail, 2 unknown.",
)
_experiment("reconcile", "Two streams under the same kills against a batch run; exit 0 pass, 1 fail, 2 unknown.")


@app.command(context_settings=PASS_ON)
def drill(
    context: typer.Context,
    on: Annotated[Literal["embedded", "cluster"], typer.Option(help="Processes here, or the cluster.")] = "embedded",
    parts: Annotated[
        str | None, typer.Option(help="Some of bucket,topic,cluster, with commas between; all if left out.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draws the records; drawn when left out.")] = None,
) -> None:
    """Destroy what a pipeline runs on, restore it, state what is lost; exit code 0 pass, 1 fail, 2 unknown.

    Other words are options of the plan: `--before-s 30`, `--quick`, `--resume RUN`.
    """
    from tests.experiments import command, kinds, page  # noqa: PLC0415
    from tests.experiments.drill import on_cluster  # noqa: PLC0415
    from tests.experiments.drill.plan import PARTS, Plan  # noqa: PLC0415

    if on == "embedded":
        words = [*(["--parts", parts] if parts else []), *(["--seed", str(seed)] if seed is not None else [])]
        raise typer.Exit(command.main(kinds.experiment("drill"), [*words, *context.args]))
    drawn = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    results = on_cluster.play(Plan(drawn, (parts,) if parts else PARTS), default_console())
    typer.echo(page.markdown(kinds.experiment("drill").page, results))
    raise typer.Exit(results.verdict.exit_code)


@app.command()
def acceptance(
    suite: Annotated[
        str,
        typer.Option(
            help="smoke (5 kills), all, ha (copies of servers), jobs (further ones), alerts (each by its fault), or "
            "upgrade (changed while it runs)."
        ),
    ] = "all",
    seed: Annotated[int | None, typer.Option(min=0, help="What is sent and killed; drawn when left out.")] = None,
    job: Annotated[str | None, typer.Option(help="One of the further jobs; all of them when left out.")] = None,
    faults: Annotated[str | None, typer.Option(help="Of alerts: names with commas between; all if left out.")] = None,
    *,
    quiet: Annotated[
        float, typer.Option(min=0, help="Of alerts: minutes before the faults in which none may fire.")
    ] = 3.0,
    changes: Annotated[
        str | None, typer.Option(help="Of upgrade: names with commas between; all that can be made if left out.")
    ] = None,
) -> None:
    """Kill executor pods of the deployed platform, judge the outputs; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.harness.campaigns import acceptance as suites  # noqa: PLC0415
    from tests.harness.campaigns.suites import ALERTS, JOBS, UPGRADE, refuse_foreign  # noqa: PLC0415
    from tests.harness.judge.verdict import show  # noqa: PLC0415

    drawn = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    refuse_foreign(suite, changes)
    if suite == JOBS or job is not None:
        from tests.acceptance import jobs  # noqa: PLC0415

        raise typer.Exit(jobs.play(job, drawn, default_console(), console_out()).exit_code)
    if suite == ALERTS:
        from tests.harness.alerts import run  # noqa: PLC0415

        raised = run.on_this_machine(drawn, default_console(), faults, quiet)
        run.show(raised, console_out())
        raise typer.Exit(raised.verdict.exit_code)
    if suite == UPGRADE:
        from tests.harness.upgrade import run as upgrade  # noqa: PLC0415

        results = upgrade.on_this_machine(drawn, default_console(), changes)
    else:
        results = suites.on_this_machine(suite, drawn, default_console())
    show(results, console_out())
    raise typer.Exit(results.verdict.exit_code)


@app.command()
def check(
    run: Annotated[Path, typer.Option(help="The run directory, or a kept run: docs/evidence/NAME/RUN.tar.xz.")] = Path(
        "runs/latest"
    ),
    out: Annotated[
        Path | None, typer.Option(help="Write there what is judged, and the results; left out: into the run directory.")
    ] = None,
) -> None:
    """Judge a run of any kind again from its files; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.harness.judge.again import differences, place_to_judge  # noqa: PLC0415
    from tests.harness.pack.archive import is_packed  # noqa: PLC0415

    with place_to_judge(run, out) as place:
        code = _judge_again(place)
        differ = differences(run, place) if is_packed(run) else []
    if is_packed(run):
        typer.echo("\n".join([f"✗ {one}" for one in differ] or [f"✓ as results.json in {run} says"]), err=bool(differ))
    raise typer.Exit(code or (2 if differ else 0))


def _judge_again(run: Path) -> int:
    """Judge a run directory of any kind, and write into it what comes of it; the exit code."""
    from tests.experiments.kinds import judge_of, kind_of  # noqa: PLC0415
    from tests.harness import report  # noqa: PLC0415
    from tests.harness.judge import verdict as judge  # noqa: PLC0415
    from tests.harness.report import index  # noqa: PLC0415
    from tests.second_judge.program import ask  # noqa: PLC0415

    if (program := judge_of(kind_of(run))) is not None:
        return program(run)
    results = judge.judge(run, second=ask)
    report.write(run)
    if (folder := run.resolve().parent).name == "runs":
        index.write(folder)
    judge.show(results, console_out())
    return results.verdict.exit_code
