"""What Spark tells of the query itself, for the metrics."""

from __future__ import annotations

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from effectively_once.metrics import Metrics


class QueryListener(StreamingQueryListener):  # type: ignore[misc]
    """Spark's own view of the query, passed on to the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing: the driver announces itself."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Count what a batch read."""
        self._metrics.read(event.progress.numInputRows)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing was read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Count its end."""
        self._metrics.query_ended(failed=event.exception is not None)
