"""The job of `orders_job` with aggregates of every kind over drawn numbers: for tests alone."""

from __future__ import annotations

import secrets
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from effectively_once import Average, Collect, CountDistinct, First, Last, Min, RecordedStep, Sum
from effectively_once.state.aggregates import Aggregate
from tests.spark import orders_job

# Added up as they come, they are 0.0 or the right sum, by their order.
WEIGHTS = (1e300, -1e300, 1e16, -1e16, 0.1, -0.0, 5e-324)
VALUES: dict[str, Aggregate] = {
    "cost": Sum("cost"),
    "weight": Sum("weight"),
    "mean": Average("weight"),
    "cheapest": Min("cost"),
    "first": First("weight"),
    "last": Last("cost"),
    "prices": CountDistinct("price", most=10_000),
    "some": Collect("cost", most=3),
}


def weighed(rows: pa.Table) -> pa.Table:
    """Draw price, cost and weight of each row: whoever repeats an epoch has to come to the draw that was recorded."""
    costs = [Decimal(secrets.randbits(100)) / 100 for _ in range(rows.num_rows)]
    weights = [secrets.choice(WEIGHTS) for _ in range(rows.num_rows)]
    return (
        orders_job.priced(rows)
        .append_column("cost", pa.array(costs, pa.decimal128(38, 2)))
        .append_column("weight", pa.array(weights, pa.float64()))
    )


_per_user = orders_job.pipeline.windows[0]
pipeline = replace(
    orders_job.pipeline,
    recorded=RecordedStep(
        "priced", weighed, "price bigint NOT NULL, cost decimal(38, 2) NOT NULL, weight double NOT NULL"
    ),
    windows=(replace(_per_user, values={**_per_user.values, **VALUES}),),
)
