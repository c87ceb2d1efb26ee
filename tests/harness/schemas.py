"""What every row of a sink must be, by the definition of its job; the manifest of a run holds it for each of its sinks.

Those of `user_counts` are written here by hand, from what the job declares and its documentation says. No code of the
pipeline computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tests.harness.sinks import ACCEPTED_ROWS

Type = Annotated[str, Field(pattern=r"^(text|hex|integer|number|boolean|source)( or null)?$")]
"""JSON type of a field: `hex` is text of bytes, `source` is [topic, partition, offset]."""


class SinkSchema(BaseModel):
    """One sink.

    Attributes:
        kind: what it writes to.
        fields: name -> type of all that a row has in `observed/`, without where it was read; in the order of a message.
        key: the column whose content is the key of a message; None: messages have no key.
        key_type: of this column.
        shard_by: columns of which the first that is not null says in which partition a message is.
        keyed: instead, columns whose values together do, with Arrow's names of their types.
        order: columns by which rows that one epoch wrote to a partition ascend.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["kafka", "files", "table", "lake"]
    fields: dict[str, Type]
    key: str | None = None
    key_type: Literal["text", "hex"] = "text"
    shard_by: tuple[str, ...] = ()
    keyed: tuple[tuple[str, str], ...] = ()
    order: tuple[str, ...] = ()


_ACCEPTED = {
    "id": "text",
    "event_time_ms": "integer",
    "user": "text",
    "payload": "text or null",
    "crc": "integer or null",
}
_COUNTED = {"window_start_ms": "integer", "count": "integer", "epoch": "integer"}

DEAD_LETTERS = SinkSchema(
    kind="kafka",
    fields={
        "reason": "text",
        "id": "text or null",
        "value": "text",
        "encoding": "text",
        "epoch": "integer",
        "source": "source",
    },
    shard_by=("id", "source"),
    order=("source",),
)
"""Every pipeline has this sink."""
OWN_DEAD_LETTERS = DEAD_LETTERS.model_copy(update={"fields": {**DEAD_LETTERS.fields, "value": "text or null"}})
"""That of any input: a tombstone stays null. The campaigns of user_counts send none."""

USER_COUNTS: Mapping[str, SinkSchema] = {
    "accepted": SinkSchema(
        kind="kafka",
        fields={**_ACCEPTED, "epoch": "integer", "source": "source"},
        key="user",
        shard_by=("id",),
        order=("source",),
    ),
    "dead_letter": DEAD_LETTERS,
    "user_counts": SinkSchema(
        kind="kafka",
        fields={"user": "text", **_COUNTED},
        key="user",
        shard_by=("user",),
        order=("window_start_ms", "user"),
    ),
    "global_counts": SinkSchema(kind="files", fields=_COUNTED),
}
WITH_TABLE: Mapping[str, SinkSchema] = {
    **USER_COUNTS,
    ACCEPTED_ROWS: SinkSchema(kind="table", fields={**_ACCEPTED, "source": "source"}),
}
"""Of a run with a result store."""
