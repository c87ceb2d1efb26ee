"""The sending side: a client with a durable buffer that sends every record, with one id, until it is acknowledged.

A gateway runs where records arise; it needs the wheel and confluent-kafka, no Spark. What an ambiguous failure makes it
send twice, the catalog of the pipeline removes.
"""

from effectively_once.gateway.buffer import Repair
from effectively_once.gateway.client import Counters, Gateway
from effectively_once.gateway.errors import (
    BufferDamagedError,
    BufferDiskError,
    BufferFormatError,
    BufferFullError,
    BufferLockedError,
    GatewayClosedError,
    RecordError,
    UndeliveredError,
)
from effectively_once.gateway.limits import Limits
from effectively_once.gateway.record import RecordId, json_record
from effectively_once.gateway.stating import States

__all__ = [
    "BufferDamagedError",
    "BufferDiskError",
    "BufferFormatError",
    "BufferFullError",
    "BufferLockedError",
    "Counters",
    "Gateway",
    "GatewayClosedError",
    "Limits",
    "RecordError",
    "RecordId",
    "Repair",
    "States",
    "UndeliveredError",
    "json_record",
]
