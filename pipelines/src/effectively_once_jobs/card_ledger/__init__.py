"""S5: card transactions, and a call to a payment service, in three ways of which a setting (`job`) chooses one.

| `job` | calls | what a repeat does |
|---|---|---|
| `effectively_once_jobs.card_ledger:plain` | `charge`, once a transaction | charges again |
| `effectively_once_jobs.card_ledger:keyed` | the same with the record's id as idempotency key | is recognised |
| `effectively_once_jobs.card_ledger:restructured` | `set_card_balance`, once a card and epoch | says the same again |

The service's address is in the environment (`payments.VARIABLE`) of driver and executors.
"""

from __future__ import annotations

import pyarrow as pa

from effectively_once import Pipeline, RecordedStep, Stateful, ToKafka
from effectively_once_jobs.card_ledger.balances import RESULTS, running_balances
from effectively_once_jobs.card_ledger.charges import ADDED, Charges
from effectively_once_jobs.card_ledger.transform import transactions

AHEAD_MS = 24 * 3_600_000
COLUMNS = pa.schema([("card", pa.string()), ("amount_cents", pa.int64())])


def _charge_pipeline(keyed: bool) -> Pipeline:
    return Pipeline(
        transform=transactions,
        columns=COLUMNS,
        recorded=RecordedStep("charge", Charges(keyed), ADDED),
        rows=(ToKafka("charges", key="card"),),
        ahead_ms=AHEAD_MS,
    )


plain = _charge_pipeline(keyed=False)
keyed = _charge_pipeline(keyed=True)
restructured = Pipeline(
    transform=transactions,
    columns=COLUMNS,
    stateful=Stateful(running_balances, RESULTS, by="card", to=ToKafka("balances", key="card")),
    ahead_ms=AHEAD_MS,
)
