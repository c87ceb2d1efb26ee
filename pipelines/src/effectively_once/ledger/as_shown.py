"""What an operator found of a shard whose epoch no repeat could finish (R10)."""

from __future__ import annotations

from effectively_once.ledger.delta import Delta
from effectively_once.ledger.rows import Rows


class AsShown(Rows):
    """What a shard shows of an epoch that no repeat could finish: the rows of the input that it is finished with.

    Its digest is that of their source coordinates.

    Attributes:
        key: the object that holds these; None where there are none.
        ids: the shard's delta, where no sink tells the coordinates of its accepted rows: of each id that it names the
            first row in time is one.

    """

    key: str | None = None
    ids: Delta | None = None
