"""Oracle 7: every row is what the definition of its job says: fields, types, key, headers, partition, order.

What a row means is the matter of oracle 1. This one looks at all that a reader of a sink gets with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tests.harness.checkers import shards
from tests.harness.checkers.aggregated import IMPOSSIBLE, key_text
from tests.harness.checkers.case import FIRST, Case, clip, coordinate_text, place_of
from tests.harness.checkers.whole_row import Row, faults_in, fields_of
from tests.harness.checkers.xxhash64 import shard_of
from tests.harness.evidence import EvidenceError
from tests.harness.results import Oracle, Verdict
from tests.harness.schemas import SinkSchema

NAME, NUMBER = "messages", 7


class _Last(NamedTuple):
    """The last row of a partition."""

    offset: int
    epoch: Any
    position: tuple[Any, ...]


@dataclass
class Look:
    """One sink looked through, row by row in the order in which it was read.

    Attributes:
        sink: its name.
        schema: what its rows must be.
        shards: of an epoch: so many partitions of every topic have its rows.
        hidden: columns of a row that its message does not show, where they are known.
        broken: the first rows that are not what they must be, with what is wrong.
        wrong: how many there are.
        rows: how many were looked at.
        blind: columns that nothing tells, so that what depends on them was not judged.
    """

    sink: str
    schema: SinkSchema
    shards: Callable[[Any], int]
    hidden: Callable[[Row], Row] = lambda _: {}
    broken: list[str] = field(default_factory=list)
    wrong: int = 0
    rows: int = 0
    blind: set[str] = field(default_factory=set)
    _last: dict[int, _Last] = field(default_factory=dict)

    def take(self, row: dict[str, Any]) -> None:
        """Judge the next row. Raises EvidenceError where the row does not tell what is judged."""
        schema = self.schema
        fields = fields_of(row, schema)
        columns = {**self.hidden(row), **fields} if self._beyond else fields
        self.blind |= self._beyond - columns.keys()
        key = None if schema.key is None else columns.get(schema.key, ...)
        faults = [*faults_in(row, fields, schema, key)]
        if schema.kind == "kafka":
            faults += self._check_place(row, columns)
        self.rows += 1
        if faults:
            self.wrong += 1
            if self.wrong <= FIRST:
                found = "; ".join(faults)
                self.broken.append(f"{self.sink}: {_name(schema, fields)} at {place_of(self.sink, row)}: {found}")

    @cached_property
    def _beyond(self) -> set[str]:
        """Columns that key and partition depend on, and no field shows."""
        keyed = (name for name, _ in self.schema.keyed)
        return {name for name in (self.schema.key, *self.schema.shard_by, *keyed) if name} - self.schema.fields.keys()

    def _check_place(self, row: Row, columns: Row) -> list[str]:
        """Whether a row is in its partition, and behind the right one."""
        partition, offset, epoch = row.get("partition"), row.get("offset"), columns.get("epoch")
        if type(partition) is not int or type(offset) is not int:
            raise EvidenceError("a row does not say where it was read", dict(row), "run again")
        found: list[str] = []
        if columns.get("reason") in IMPOSSIBLE:
            # A result of windows: it is in its key's shard, behind the records, and its source tells another order.
            return found
        home = self._home(columns)
        if home is not None and (due := _shard(home[1], self.shards(epoch))) not in (None, partition):
            found.append(f"in partition {partition}, due is {due} by its {home[0]}")
        last, position = self._last.get(partition), tuple(columns.get(name) for name in self.schema.order)
        if last is not None:
            if offset <= last.offset:
                what = f"offset {offset} of partition {partition} was read after {last.offset}"
                raise EvidenceError(what, self.sink, "take the file again from where the run was recorded")
            if type(epoch) is int and type(last.epoch) is int and epoch < last.epoch:
                found.append(f"epoch {epoch} behind epoch {last.epoch} at offset {last.offset}")
            elif epoch == last.epoch and _before(position, last.position):
                named = ", ".join(self.schema.order)
                found.append(f"by {named} it is due before the row at offset {last.offset}")
        self._last[partition] = _Last(offset, epoch, position)
        return found

    def _home(self, columns: Row) -> tuple[str, Any] | None:
        """What says in which partition a row is, and its value."""
        if self.schema.keyed:
            names, types = zip(*self.schema.keyed, strict=True)
            try:
                return " and ".join(names), key_text([columns[name] for name in names], types)
            except (KeyError, TypeError, ValueError):
                # Missing, or of a wrong type: told already.
                return None
        return next(((name, columns[name]) for name in self.schema.shard_by if columns.get(name) is not None), None)


def _shard(value: Any, shards: int) -> int | None:
    """Shard of a text, or of a source; None of what has none: its type is wrong, and told already."""
    text = "-".join(map(str, value)) if isinstance(value, list) else value
    return shard_of(text, shards) if isinstance(text, str) else None


def _before(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    try:
        return one < other
    except TypeError:
        # A value of a wrong type, or none: told already, and of no order.
        return False


def _name(schema: SinkSchema, fields: Row) -> str:
    """Name a row for people, by what places it."""
    names = dict.fromkeys((*schema.shard_by, *schema.order)) or [*schema.fields][:1]
    return " ".join(_part(name, fields.get(name)) for name in names)


def _part(name: str, value: Any) -> str:
    whole = isinstance(value, list) and len(value) == 3
    return f"from {coordinate_text((value[0], value[1], value[2]))}" if whole else f"{name} {value!s:.60}"


def judge(case: Case) -> Oracle:
    """Oracle 7; raises EvidenceError, also for a run that was recorded before messages were looked at whole."""
    looks: list[Look] = []
    unreadable: list[str] = []
    shards_of = shards.find_of_epochs(case)
    for sink, schema in case.schemas.items():
        look = Look(sink, schema, shards_of, case.hidden)
        looks.append(look)
        try:
            for row in case.rows(sink):
                look.take(row)
        except EvidenceError as error:
            unreadable.append(f"{sink}: {error}")
    broken = [line for look in looks for line in clip(look.broken, look.wrong)]
    wrong = {look.sink: look.wrong for look in looks if look.wrong}
    if wrong:
        numbers = ", ".join(f"{number} of {sink}" for sink, number in wrong.items())
        verdict, says = Verdict.FAIL, f"rows that are not what the definition says: {numbers}; first: {broken[0]}"
    elif unreadable:
        verdict, says = Verdict.UNKNOWN, f"messages of {len(unreadable)} sinks cannot be judged: {unreadable[0]}"
    else:
        rows = sum(look.rows for look in looks)
        blind = [f"{one} of {look.sink}" for look in looks for one in sorted(look.blind)]
        verdict = Verdict.PASS
        says = f"{rows} rows in {len(looks)} sinks, each as its job defines it: fields, key, partition, order"
        says += f"; nothing tells {', '.join(blind)}" if blind else ""
    return Oracle(name=NAME, number=NUMBER, verdict=verdict, says=says, evidence=(*broken, *unreadable))
