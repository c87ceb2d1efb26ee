"""`make report`: the page of a run, the index of runs, the sum of a campaign, and what the repository keeps of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from infra.command_line import run
from infra.console import Console
from infra.errors import RefusedError
from infra.toolchain.prepare import CHECKOUT
from tests.harness import report
from tests.harness.pack.archive import is_packed
from tests.harness.report import campaign, index, kept, packing
from tests.harness.report.private import private

RUNS, SUM = Path("runs"), Path("runs/campaign")
EVIDENCE = CHECKOUT / "docs" / "evidence"
Runs = Annotated[list[Path], typer.Argument(metavar="DIR", help="Run directories, or the sum of some.")]


class PageByDefault(TyperGroup):
    """`report RUN` is `report page RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the command that is meant."""
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["page", *args])


app = typer.Typer(cls=PageByDefault, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _report() -> None:
    """Draw a run's page (`report RUN`), the index of runs, or the sum of a campaign; keep evidence.

    Exit code: 0, or that of the campaign's verdict (1 fail, 2 unknown); 2 when what was named is not there.
    """


@app.command()
def page(
    of: Annotated[Path, typer.Argument(metavar="RUN", help="A run, a kept run, or a folder of kept ones.")] = RUNS
    / "latest",
) -> None:
    """The page of a run directory; of a kept run, or of all in a folder, beside it."""
    if is_packed(of):
        pages: Iterable[Path] = (kept.draw(of),)
    elif kept.is_folder_of_kept(of):
        pages = kept.draw_all(of)
    else:
        pages = (report.write(of),)
    for one in pages:
        typer.echo(one)


@app.command(name="index")
def index_command(
    runs: Annotated[Path, typer.Argument(help="Holds run directories.")] = RUNS,
    *,
    kept: Annotated[bool, typer.Option("--kept", help="Of evidence: also what folders of runs in it hold.")] = False,
) -> None:
    """The index.html of runs/ or another directory, as docs/evidence --kept."""
    typer.echo(index.write(runs, kept=kept))


@app.command(name="campaign")
def campaign_command(
    runs: Runs, to: Annotated[Path, typer.Option(metavar="DIR", help="Where the sum goes.")] = SUM
) -> int:
    """One page and results.json that add up run directories."""
    results, drawn = campaign.write(runs, to)
    hits = sum(one.hits for one in results.recovery)
    typer.echo(
        f"{results.verdict}: {len(results.parts)} runs, {hits} faults hit, {results.violations} violations\n{drawn}"
    )
    return results.verdict.exit_code


@app.command()
def evidence(
    runs: Runs,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Where the evidence goes.")],
    *,
    any_verdict: Annotated[bool, typer.Option("--any-verdict", help="Also runs that did not pass.")] = False,
) -> None:
    """What the repository keeps of run directories, or of a sum of them."""
    hidden = list(private(os.environ, CHECKOUT))
    step = Console().step
    results, size = packing.pack(runs, to, hidden, checkout=CHECKOUT, any_verdict=any_verdict, step=step)
    if to.resolve().parent == EVIDENCE:
        index.write(EVIDENCE, kept=True)
    typer.echo(f"{results.verdict}: {len(results.parts)} runs, {size / 1e6:.1f} MB\n{to / 'report.html'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit code."""

    def command(**how: Any) -> Any:
        try:
            return app(**how)
        except FileNotFoundError as error:
            raise RefusedError(str(error)) from error

    return run(command, arguments, "report")
