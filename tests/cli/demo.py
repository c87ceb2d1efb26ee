"""`make demo`: which job, with what."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.command_line import console_out
from infra.embedded.class_archive import class_archive
from infra.errors import RefusedError
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from tests.cli.app import app

RECORDS, KILLS = 200_000, 3
DEMO_JOBS = ("user_counts", "card_ledger", "fraud")


@app.command()
def demo(
    *,
    seed: Annotated[
        int | None, typer.Option(min=0, help="What is sent and killed; drawn and printed when left out.")
    ] = None,
    job: Annotated[
        str, typer.Option(help="user_counts; card_ledger: ways to call a service; fraud: decisions by a deadline.")
    ] = "user_counts",
    records: Annotated[int | None, typer.Option(min=1_000, help="Records of the seeded stream.")] = None,
    kills: Annotated[int, typer.Option(min=1, help="How many; of several one is of another role.")] = KILLS,
    input: Annotated[Path | None, typer.Option(help="Your own events: .csv, .jsonl or .parquet.")] = None,  # noqa: A002
    key: Annotated[str | None, typer.Option(help="Column of INPUT to count by.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of INPUT that holds the event time.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="fraud: transactions a second.")] = None,
    store_down_s: Annotated[int | None, typer.Option(min=1, help="fraud: how long the killed store is away.")] = None,
    held_max: Annotated[int | None, typer.Option(min=10, help="fraud: held meanwhile before no more is read.")] = None,
) -> None:
    """Broker, object store and Spark here, executors and more killed, a verdict; exit 0 pass, 1 fail, 2 unknown."""
    from tests.harness import subject  # noqa: PLC0415 - commands that need less start sooner
    from tests.harness.campaigns.demo import Demo  # noqa: PLC0415
    from tests.harness.judge.accounting import accounting  # noqa: PLC0415
    from tests.harness.judge.verdict import show  # noqa: PLC0415
    from tests.harness.results import Verdict  # noqa: PLC0415

    if job not in DEMO_JOBS:
        raise RefusedError(f"there is no job {job!r}; there are: {', '.join(DEMO_JOBS)}")
    of_fraud = {"rate": rate, "store_down_s": store_down_s, "held_max": held_max}
    if job != "fraud" and (given := [name for name, value in of_fraud.items() if value is not None]):
        raise RefusedError(f"--{given[0].replace('_', '-')} is for fraud, not for {job}")
    if input is not None and job != "user_counts":
        raise RefusedError(f"INPUT is for user_counts: {job} sends transactions of its own")
    if input is None and (key or time):
        raise RefusedError("KEY and TIME name columns of a file: give INPUT as well")
    if input is not None and records is not None:
        raise RefusedError("--records is of the seeded stream: with INPUT every row of the file is sent")
    console = default_console()
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    if job == "fraud":
        raise typer.Exit(_fraud(seed, console, records=records, kills=kills, **of_fraud))
    if job == "card_ledger":
        raise typer.Exit(_cards(seed, console, records, kills))
    what = subject.from_file(input, key or "", time or "") if input else subject.seeded(seed, records or RECORDS)
    toolchain = prepare(console)
    archive = class_archive(toolchain, console)
    results = Demo(CHECKOUT, toolchain, what, seed, kills, console, archive).run()
    show(results, console_out())
    if input is not None and results.verdict is not Verdict.UNKNOWN:
        typer.echo("\n".join(f"  {line}" for line in accounting(CHECKOUT / "runs" / "latest")))
    raise typer.Exit(results.verdict.exit_code)


def _cards(seed: int, console: Any, records: int | None, kills: int) -> int:
    from tests.experiments.card_ledger.demo import CARD_RECORDS, CardDemo, on_embedded  # noqa: PLC0415
    from tests.experiments.card_ledger.show import show  # noqa: PLC0415

    stack = partial(on_embedded, console)
    results = CardDemo(CHECKOUT, "embedded", stack, seed, console, records or CARD_RECORDS, kills).run()
    show(results, console_out())
    return int(results.verdict.exit_code)


def _fraud(seed: int, console: Any, **sizes: int | None) -> int:
    from tests.experiments.fraud.demo import FraudDemo, on_embedded  # noqa: PLC0415
    from tests.experiments.fraud.page import show  # noqa: PLC0415
    from tests.experiments.fraud.plan import STORE_DOWN_S  # noqa: PLC0415

    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    # A run that is about the store's absence leaves out what is measured beside the job.
    stack, triggers = partial(on_embedded, console), given.get("store_down_s", STORE_DOWN_S) == STORE_DOWN_S
    results = FraudDemo(CHECKOUT, "embedded", stack, seed, console, triggers=triggers, **given).run()
    show(results, console_out())
    return int(results.verdict.exit_code)
