"""The restructured call: the running balance is computed exactly once in the pipeline, and told as often as needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from effectively_once.epoch import whole_input
from effectively_once_jobs.card_ledger.payments import Payments

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

RESULTS = pa.schema([("card", pa.string()), ("balance_cents", pa.int64()), ("version", pa.int64())])
_DDL = "card string, balance_cents long, version long"
_STATE = "balance_cents long, version long"


def running_balances(rows: DataFrame) -> DataFrame:
    """Accepted transactions -> balance of every card that has some, told to the service before it is given.

    The version is the number of transactions in a balance: it grows with the epochs, and every repeat of an epoch
    comes to the same. What the service answers is in no result, since a repeat may be answered otherwise.
    """
    # The declaration needs no Spark.
    from pyspark.sql.streaming.state import GroupStateTimeout  # noqa: PLC0415

    from effectively_once.driver.spark_state import PARTITIONS  # noqa: PLC0415
    from effectively_once.epoch.rows import by_key  # noqa: PLC0415

    running = (
        rows.select("card", "amount_cents")
        .groupBy("card")
        .applyInPandasWithState(add_amounts, _DDL, _STATE, "append", GroupStateTimeout.NoTimeout)
    )
    # Never in the stage of the operator: what it gave on a part of a card's rows would be told (R13).
    shards = int(str(rows.sparkSession.conf.get(PARTITIONS)))
    return by_key(running, "card", shards).mapInArrow(tell_service, _DDL)


def add_amounts(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Add the transactions of an epoch to the balance of a card; they are whole numbers, so their order is all one."""
    import pandas  # noqa: PLC0415 - on executors only

    balance, version = state.get if state.exists else (0, 0)
    for frame in frames:
        balance += int(frame["amount_cents"].sum())
        version += len(frame)
    state.update((balance, version))
    yield pandas.DataFrame({"card": [key[0]], "balance_cents": [balance], "version": [version]})


def tell_service(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell the service each balance once all of the shard's are there, then pass it on."""
    payments = None
    for whole in whole_input.require(batches, (), "card ledger, balances that are to be told"):
        batch = whole.select(RESULTS.names)
        payments = payments or Payments.here()
        for row in batch.to_pylist():
            payments.set_card_balance(row["card"], row["balance_cents"], row["version"])
        yield batch
