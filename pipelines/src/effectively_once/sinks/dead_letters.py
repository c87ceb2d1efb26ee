"""Records that a pipeline refused: what each is, which are meant, and what is told of them."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from effectively_once.errors import SettingsError

LATE = "late"
"""The reason of a record whose window was closed when it came."""
UNREADABLE = "(no dead letter)"
_EPOCHS = re.compile(r"(\d+)?(-)?(\d+)?")


class Cut(BaseModel):
    """What a dead letter has of a record that is larger than its topic takes.

    Attributes:
        key: the object that holds the record (`letter_records`); None in letters of former versions, of which only
            their source holds it.

    """

    model_config = ConfigDict(frozen=True)

    bytes: int
    sha256: str
    key: str | None = None


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True)

    reason: str
    id: str | None
    value: str | None
    encoding: Literal["utf-8", "base64"]
    epoch: Annotated[int, Field(ge=0)]
    source: tuple[str, int, int]
    pos: Annotated[int, Field(ge=0)] | None = None
    cut: Cut | None = None


def as_text(value: bytes | None) -> tuple[str | None, str]:
    """Return a record's value as text where it is text, else as base64, and which of the two; null stays null."""
    if value is None:
        return None, "utf-8"
    try:
        return value.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(value).decode(), "base64"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record as it came, and why it was refused.

    Attributes:
        id: None where the record has none, or where it could not be read.
        value: None of a tombstone, and of a record that was cut until it is read from its object.
        source: topic, partition and offset that it was read at.
        cut: size, SHA-256 and object of a record that is too large for a dead letter.
        pos: which row of the record it is; None where a record is one row. `value` is the record's.

    """

    reason: str
    id: str | None
    value: bytes | None
    epoch: int
    source: tuple[str, int, int]
    cut: Cut | None = None
    pos: int | None = None

    @property
    def coordinate(self) -> str:
        """Epoch and source in one text: no other dead letter of the pipeline has it."""
        topic, partition, offset = self.source
        place = "" if self.pos is None else f"/{self.pos}"
        return f"{self.epoch}/{topic}/{partition}/{offset}{place}"

    def line(self) -> str:
        """One line of JSON; a value that is no text is base64."""
        value, encoding = as_text(self.value)
        told: dict[str, Any] = {
            "reason": self.reason,
            "id": self.id,
            "epoch": self.epoch,
            "source": self.source,
            "value": value,
            "encoding": encoding,
        }
        if self.pos is not None:
            told["pos"] = self.pos
        if self.cut is not None:
            told["cut"] = self.cut.model_dump(exclude_none=True)
        return json.dumps(told, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of the topic that no pipeline wrote; `where` is its partition and offset."""

    where: tuple[int, int]


Message = DeadLetter | Unreadable


def of_message(value: bytes | None, where: tuple[int, int]) -> Message:
    """Read a message's value."""
    try:
        row = _Row.model_validate_json(value or b"", strict=True)
        if row.value is None:
            body = None
        else:
            body = row.value.encode() if row.encoding == "utf-8" else base64.b64decode(row.value, validate=True)
    except (ValidationError, ValueError):
        return Unreadable(where)
    return DeadLetter(row.reason, row.id, body, row.epoch, row.source, row.cut, row.pos)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters are meant; what is not given does not restrict.

    Attributes:
        reasons: any of them.
        ids: any of them.
        epochs: first and last; None is open.

    """

    reasons: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    epochs: tuple[int | None, int | None] = (None, None)

    def holds(self, letter: DeadLetter) -> bool:
        """Whether one is meant."""
        first, last = self.epochs
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.ids or letter.id in self.ids)
            and (first is None or letter.epoch >= first)
            and (last is None or letter.epoch <= last)
        )


def epochs(text: str) -> tuple[int | None, int | None]:
    """Parse `5`, `5-9`, `5-` or `-9`.

    Raises:
        SettingsError: it is none of these, or ends before it begins.

    """
    found = _EPOCHS.fullmatch(text)
    first, dash, last = found.groups() if found else (None, None, None)
    begin, end = (int(first) if first else None), (int(last) if last else None)
    if not dash:
        end = begin
    if (begin is None and end is None) or (begin is not None and end is not None and end < begin):
        raise SettingsError(f"{text!r} are no epochs", "--epochs", "Write 5, 5-9, 5- or -9.")
    return begin, end


def count_reasons(messages: Iterable[Message], meant: Selection) -> Iterator[str]:
    """Yield a line a reason, most frequent first: how many, and of which epochs."""
    numbers: Counter[str] = Counter()
    spans: dict[str, tuple[int, int]] = {}
    for message in messages:
        if isinstance(message, Unreadable):
            numbers[UNREADABLE] += 1
        elif meant.holds(message):
            numbers[message.reason] += 1
            first, last = spans.get(message.reason, (message.epoch, message.epoch))
            spans[message.reason] = min(first, message.epoch), max(last, message.epoch)
    for reason, number in sorted(numbers.items(), key=lambda it: (-it[1], it[0])):
        of = "" if reason not in spans else "  epochs {}-{}".format(*spans[reason])
        yield f"{number:>12,}  {reason}{of}"
    yield f"{numbers.total():>12,}  in all"


def show_letters(
    messages: Iterable[Message], meant: Selection, limit: int, whole: Callable[[DeadLetter], DeadLetter] = lambda it: it
) -> Iterator[str]:
    """Yield the first dead letters that are meant, a line of JSON each; `whole` gives one that was cut its record."""
    letters = (message for message in messages if isinstance(message, DeadLetter) and meant.holds(message))
    yield from (whole(letter).line() for letter in islice(letters, limit))
