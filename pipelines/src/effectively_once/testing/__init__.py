"""Runs a declaration on records in memory, for the tests of a job: no broker, no object store, one process.

    trial = Trial(pipeline, spark)
    first = trial.epoch([b'{"id": "1", ...}', ...])
    first["accepted"], first["dead_letter"]              # rows, as dictionaries
    trial.repeat()                                       # what a recovery does; refuses what is not deterministic
    trial.epoch([KafkaRecord(b'{"id": "2"}', key="ann", timestamp_ms=5)])    # where the transform looks at these

The transform is run by Spark, and everything after it by the very steps that executors run. What only several
processes can show (fencing, kills) is not to be seen here.
"""

from __future__ import annotations

from effectively_once.testing.kafka_record import KafkaRecord
from effectively_once.testing.session import trial_session
from effectively_once.testing.trial import Outputs, Trial

__all__ = ["KafkaRecord", "Outputs", "Trial", "trial_session"]
