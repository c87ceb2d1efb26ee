"""What a trial tells of the records that a transform leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.epoch.filtered import MARK, UNDECLARED
from effectively_once.errors import SettingsError
from effectively_once.pipeline.columns import COORDINATES, POSITION
from effectively_once.sinks.dead_letters import as_text


def refuse_undeclared(whole: pa.Table, where: str) -> None:
    """Refuse marks that are not declared, where somebody tries a transform; a driver makes dead letters of them.

    Args:
        whole: judged rows.
        where: the transform, for messages.

    Raises:
        SettingsError: naming them.

    """
    found = {why for why in whole["reason"].to_pylist() if why is not None and why.startswith(f"{UNDECLARED} ")}
    if found:
        marks = ", ".join(sorted(why.removeprefix(f"{UNDECLARED} ") for why in found)[:3])
        raise SettingsError(
            f"the transform marks records with {marks}, which filtered does not declare",
            where,
            "Declare it in Pipeline(filtered=...), or correct the mark. A running pipeline makes a dead letter of each "
            "such record.",
        )


def show(whole: pa.Table, values: Mapping[int, bytes | None], *, exploded: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the records that are left out of judged rows, in order of offset, as a dead letter has them.

    Args:
        whole: judged rows of one partition.
        values: of their records, by offset.
        exploded: whether a record has several rows; each has its place then, `pos`.

    """
    if MARK not in whole.column_names:
        return
    places = [name for name in POSITION.names if exploded]
    mine = whole.filter(pc.is_valid(whole[MARK])).select([*COORDINATES.names, *places, MARK])
    for row in mine.sort_by([(name, "ascending") for name in ("offset", *places)]).to_pylist():
        value, encoding = as_text(values[row["offset"]])
        source = [row[name] for name in COORDINATES.names]
        yield {"reason": row[MARK], "value": value, "encoding": encoding, "source": source} | {
            name: row[name] for name in places
        }
