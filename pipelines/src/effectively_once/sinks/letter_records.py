"""Refused records that are larger than a dead letter may be: an object each, named in the letter (`cut`).

The name has epoch and SHA-256, so a repeat of the epoch names the same object, and it is proven by its name alone. The
object is there before the letter is published. A letter that is not published after all leaves it to `retention`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace

from effectively_once.errors import SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.sinks.dead_letters import DeadLetter, Message

WAY_OUT = (
    "Restore the object from the bucket's versions or from a backup, or send the record again from its source while "
    "the input has it. Go on with the others: choose them with --reason, --id or --epochs."
)
_NAME = re.compile(r".+/(\d{9,})-([0-9a-f]{64})")


def put(store: ObjectStore, layout: Layout, epoch: int, value: bytes, sha256: str) -> str:
    """Put a record where it stays, and return the object's name.

    Raises:
        SinkError: something else is there under this name.

    """
    key = layout.letter(epoch, sha256)
    if run(create_once(key, value), store) != value:
        raise SinkError(
            "the object of a refused record is damaged",
            key,
            "Delete it and start again: the epoch puts the record there once more.",
        )
    return key


def read(store: ObjectStore, letter: DeadLetter) -> DeadLetter:
    """Return a dead letter with its record where an object holds that; else as it is.

    Raises:
        SinkError: the object is missing, or is not the record.

    """
    if letter.cut is None or letter.cut.key is None:
        return letter
    key, where = letter.cut.key, f"dead letter {letter.coordinate}, {letter.cut.key}"
    value = run(body_of(key), store)
    if value is None:
        raise SinkError("the object that holds the record of a dead letter is missing", where, WAY_OUT)
    if (len(value), hashlib.sha256(value).hexdigest()) != (letter.cut.bytes, letter.cut.sha256):
        raise SinkError("the object that holds the record of a dead letter is damaged", where, WAY_OUT)
    return replace(letter, value=value)


def check(body: bytes, key: str) -> None:
    """Raise SinkError where an object is not the record that its name tells of."""
    found = _NAME.fullmatch(key)
    if found is None or hashlib.sha256(body).hexdigest() != found[2]:
        raise SinkError("the object that holds the record of a dead letter is damaged", key, WAY_OUT)


def epoch_of(key: str) -> int | None:
    """Return the epoch that refused the record of an object; None of a name that is none of ours."""
    found = _NAME.fullmatch(key)
    return None if found is None else int(found[1])


def name_error(messages: Iterable[Message]) -> frozenset[str]:
    """Return the objects that some dead letters name."""
    cuts = (message.cut for message in messages if isinstance(message, DeadLetter))
    return frozenset(cut.key for cut in cuts if cut is not None and cut.key is not None)
