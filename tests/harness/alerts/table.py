"""Alerts that no fault raises here within minutes, each with the reason: the others have a fault in `faults`."""

from __future__ import annotations

NOT_RAISED = {
    "SourceIsNotWaitedFor": "needs a pipeline with registered sources, of which user_counts declares none",
    "LeftBehind": (
        "needs held_rows_max rows that are held for one partition or source: more than minutes of sending here, and "
        "user_counts holds none"
    ),
    "CertificateExpires": (
        "needs a server with a certificate of less than three weeks; no profile of a kind cluster speaks TLS, and a "
        "driver asks once an hour"
    ),
    "ObjectStoreFull": "the volume is a folder of the machine's disk: nine tenths of that would have to be written",
    "KafkaRefusesWrites": "needs two of three brokers away, and controllers that are none of them",
    "KafkaWithoutController": "needs controllers that live and cannot hear each other",
    "KafkaTransactionHangs": "a broker tells it once a transaction is open for twenty minutes",
}
"""Alert -> why."""
