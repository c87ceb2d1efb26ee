"""S8: fraud detection. Each transaction gets one decision by a deadline, with the analyzers that have answered then.

```
transactions (Kafka) -> average, count, proximity -> scores (Kafka) -> aggregator -> result store -> presenter
     and (Kafka) ------------------------------------> aggregator
```

Every role is one long task of Spark, which places it on an executor and starts it again when that is lost. Scores are
delivered at most once: one that comes after the deadline is of no use to anybody. Transactions are read at least once
by the aggregator, and a decision is stored once by the transaction's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effectively_once.operate.create.needs import Needs
from effectively_once_jobs.fraud.store import SCHEMA


def needs(settings: Mapping[str, Any]) -> Needs:
    """Return what a deployment makes: the topic of scores, and the tables; deadlines count from the broker's time."""
    return Needs((f"{settings['pipeline']}.scores",), {"message.timestamp.type": "LogAppendTime"}, SCHEMA)
