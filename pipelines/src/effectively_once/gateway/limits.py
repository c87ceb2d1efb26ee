"""The bounds of a gateway: bytes on disk and in memory, and times."""

from __future__ import annotations

from dataclasses import dataclass, fields

from effectively_once.errors import SettingsError

OVERHEAD_BYTES = 64
"""More than a frame and a body have besides key and value."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one gateway. Raises SettingsError, with the field, its value and what is allowed.

    Attributes:
        capacity_bytes: unacknowledged bytes in the buffer; beyond them back pressure begins. The disk holds up to two
            segments more.
        segment_bytes: size from which a segment file is closed and a new one begun. Also what is read into memory at
            once, and how much may wait to be written.
        record_bytes_max: key and value of one record together.
        sync_delay_ms: how long an fsync waits for more records to share it. `put` returns at the latest this long, and
            the time of two fsyncs, after its record was taken.
        answer_timeout_s: how long an acknowledgement may take until the record is sent again.

    """

    capacity_bytes: int = 1 << 30
    segment_bytes: int = 8 << 20
    record_bytes_max: int = 1_000_000
    sync_delay_ms: float = 0.0
    answer_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        least = {
            "capacity_bytes": self.record_bytes_max + OVERHEAD_BYTES,
            "segment_bytes": 1024,
            "record_bytes_max": 1,
            "sync_delay_ms": 0,
            "answer_timeout_s": 0.01,
        }
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= least[field.name]:
                raise SettingsError(
                    f"{field.name} is {value}",
                    "Limits of the gateway",
                    f"It must be at least {least[field.name]}.",
                )
