"""What the case `held` is asked for."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import Field

from tests.bench.options import Rounds


class Asked(Rounds):
    """A held watermark: memory and epoch time by how long, and latency beside the rule of before."""

    holds: Annotated[list[int], typer.Option(help="Minutes of 20; 0 has to be first.")] = Field(default=[0, 5, 10, 15])
    records: Annotated[int, typer.Option(min=1)] = 2_000_000
    users: Annotated[int, typer.Option(min=1)] = 100_000
    epoch_rows: Annotated[int, typer.Option(min=1)] = 50_000
    bound: Annotated[int, typer.Option(min=1, help="held_rows_max of one more arm with the longest hold.")] = 100_000
    seconds: Annotated[int, typer.Option(min=1, help="Of the run at a pace.")] = 120
    per_s: Annotated[int, typer.Option(min=1, help="Its records per second.")] = 1_000
    rounds: Annotated[int, typer.Option(min=1, help="How often each arm is measured.")] = 3
