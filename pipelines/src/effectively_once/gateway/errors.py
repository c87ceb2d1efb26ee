"""The named errors of a gateway. Impossible arguments are a SettingsError, as everywhere."""

from __future__ import annotations

from effectively_once.errors import PipelineError


class RecordError(PipelineError):
    """A record cannot be sent as it is: wrong type, too large, no usable event time. Nothing was buffered."""


class BufferFullError(PipelineError):
    """The bound of unacknowledged bytes is reached (back pressure): nothing was buffered, put it again later."""


class BufferDiskError(PipelineError):
    """The disk of the buffer is full or fails: the record was not accepted."""


class BufferDamagedError(PipelineError):
    """Records that were accepted are not whole in the buffer any more; nothing after them is acknowledged."""


class BufferLockedError(PipelineError):
    """Another gateway has the directory open."""


class BufferFormatError(PipelineError):
    """The buffer was written by a newer version, or for another topic, and is not empty."""


class UndeliveredError(PipelineError):
    """Records are not acknowledged yet. They stay in the buffer and are sent on."""


class GatewayClosedError(PipelineError):
    """The gateway was closed, or one of its threads stopped: nothing was buffered, open it again."""
