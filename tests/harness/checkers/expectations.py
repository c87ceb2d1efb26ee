"""What each sink must hold, and what differs when an observed row is not that.

Accepted rows are identified by id, dead letters by source coordinate, counts by (user, window) and by window.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

from tests.harness.checkers.case import Case, source_of
from tests.harness.checkers.reference import Outcome, id_in, is_malformed
from tests.harness.evidence import EvidenceError
from tests.harness.sends import Send, crc_of
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.wire import as_text, bytes_of, compact, json_object

_FIELDS = ("id", "user", "event_time_ms", "crc")


class Expectation(Protocol):
    """What one sink must hold."""

    @property
    def due(self) -> Mapping[Any, Any]:
        """Return the rows expected, by their identity."""

    def key_of(self, row: Mapping[str, Any]) -> Hashable:
        """Return the identity of an observed row; None when it carries none."""

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        """Tell what differs from the ground truth, or None."""

    def describe(self, key: Any) -> str:
        """Name the expected row for people, with source and epoch."""


class AcceptedRows:
    """Sink `accepted`: the records the reference accepts, by id.

    Args:
        sends: the ground truth.
        accepted: id -> index of the accepted send.
        epochs_of: per index, its epoch; None in a control, which has no chain.

    """

    def __init__(self, sends: list[Send], accepted: Mapping[str, int], epochs_of: Any | None) -> None:
        self.due = accepted
        self._sends, self._epochs_of = sends, epochs_of

    def key_of(self, row: Mapping[str, Any]) -> Hashable:
        id_ = row.get("id")
        return id_ if isinstance(id_, str) else None

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        index = self.due[key]
        send = self._sends[index]
        if _other(row.get("user"), send.user) or _other(row.get("event_time_ms"), send.event_time_ms):
            return f"user {row.get('user')} at {row.get('event_time_ms')}, sent was {send.user} at {send.event_time_ms}"
        if not isinstance(row.get("payload"), str) or _other(row.get("crc"), send.crc):
            return f"crc {row.get('crc')}, sent was {send.crc}"
        if crc_of(key, row["user"], row["event_time_ms"], row["payload"]) != send.crc:
            return f"the payload does not match crc {send.crc}"
        # In a control any copy may be the one that came through, and there are no epochs.
        if self._epochs_of is None:
            return None
        if row.get("source") != list(send.coordinate):
            return f"source {row.get('source')}, accepted was {source_of(send)}"
        return _other_epoch(row, self._epochs_of[index])

    def describe(self, key: Any) -> str:
        index = self.due[key]
        epoch = "" if self._epochs_of is None else f", epoch {self._epochs_of[index]}"
        return f"id {key} from {source_of(self._sends[index])}{epoch}"


class AcceptedTable(AcceptedRows):
    """Table `accepted_rows`: what sink `accepted` holds; its rows do not tell their epoch."""

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        send = self._sends[self.due[key]]
        if row.get("source") != list(send.coordinate):
            return f"source {row.get('source')}, accepted was {source_of(send)}"
        return super().fault_in(key, row)


class DeadLetterRows:
    """Sink `dead_letter`: what the reference finds late or malformed, by source coordinate."""

    def __init__(self, sends: list[Send], outcomes: bytearray, epochs_of: Any) -> None:
        self._sends, self._outcomes, self._epochs_of = sends, outcomes, epochs_of
        dead = (Outcome.LATE, Outcome.MALFORMED)
        self.due = {sends[index].coordinate: index for index, outcome in enumerate(outcomes) if outcome in dead}

    def causes(self) -> dict[str, int]:
        """Count what is due by cause: `late` and `malformed` as first sent, and `sent again` by the epilogue."""
        found = dict.fromkeys(("late", "malformed", "sent again"), 0)
        for index in self.due.values():
            late = self._outcomes[index] == Outcome.LATE
            found["sent again" if self._sends[index].kind == "resent" else "late" if late else "malformed"] += 1
        return found

    def key_of(self, row: Mapping[str, Any]) -> Hashable:
        return coordinate_of(row)

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        index = self.due[key]
        send = self._sends[index]
        late = self._outcomes[index] == Outcome.LATE
        reason = "late" if late else send.reason
        if row.get("reason") != reason:
            return f"reason {row.get('reason')!r}, due is {reason!r}"
        if (id_ := row.get("id")) not in (ids := [send.id] if late else _ids(send)):
            return f"id {id_!r}, sent was {' or '.join(map(repr, ids))}"
        return _value_fault(row, send) or _other_epoch(row, self._epochs_of[index])

    def describe(self, key: Any) -> str:
        index = self.due[key]
        send = self._sends[index]
        return f"id {send.id} from {source_of(send)}, epoch {self._epochs_of[index]}"


class CountRows:
    """Sinks `user_counts` and `global_counts`: one final count a key.

    Args:
        counts: key -> (count, epoch that emits it).
        key_of_row: makes the key of an observed row, None when it has none.

    """

    def __init__(
        self, counts: Mapping[Any, tuple[int, int]], key_of_row: Callable[[Mapping[str, Any]], Hashable]
    ) -> None:
        self.due = counts
        self._key_of_row = key_of_row

    def key_of(self, row: Mapping[str, Any]) -> Hashable:
        return self._key_of_row(row)

    def fault_in(self, key: Any, row: Mapping[str, Any]) -> str | None:
        count, epoch = self.due[key]
        if _other(row.get("count"), count):
            return f"count {row.get('count')}, due is {count}"
        return _other_epoch(row, epoch)

    def describe(self, key: Any) -> str:
        return f"{count_name(key)}, epoch {self.due[key][1]}"


def coordinate_of(row: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """Return the source coordinate an observed row names, or None."""
    source = row.get("source")
    if not isinstance(source, list) or len(source) != 3 or any(type(number) is not int for number in source[1:]):
        return None
    return (source[0], source[1], source[2]) if isinstance(source[0], str) else None


def user_window_of(row: Mapping[str, Any]) -> tuple[str, int] | None:
    """(user, window start) of a row of `user_counts`, or None."""
    user, start = row.get("user"), row.get("window_start_ms")
    return (user, start) if isinstance(user, str) and type(start) is int else None


def window_of(row: Mapping[str, Any]) -> int | None:
    """Window start of a row of `global_counts`, or None."""
    start = row.get("window_start_ms")
    return start if type(start) is int else None


def count_name(key: Any) -> str:
    return f"user {key[0]} window {key[1]}" if isinstance(key, tuple) else f"window {key}"


def _other(observed: Any, sent: Any) -> bool:
    """Unequal, or equal only because Python takes 1, 1.0 and True for the same."""
    return type(observed) is not type(sent) or bool(observed != sent)


def _other_epoch(row: Mapping[str, Any], epoch: int) -> str | None:
    return f"published in epoch {row.get('epoch')}, due was {epoch}" if _other(row.get("epoch"), epoch) else None


def _ids(send: Send) -> list[str | None]:
    """Ids that a malformed record's dead letter may name: that of its JSON, or none where it is refused as no JSON."""
    named = [id_in(send)]
    return [*named, None] if send.reason == "not_json" and named != [None] else named


def _value_fault(row: Mapping[str, Any], send: Send) -> str | None:
    """Whether a dead letter holds the very bytes that were sent, in the form that they call for."""
    value, encoding = row.get("value"), row.get("encoding")
    try:
        raw = bytes_of(value, encoding)
    except ValueError as error:
        return f"value cannot be read: {error}"
    if as_text(raw) != (value, encoding):
        return f"encoding {encoding}, due is {as_text(raw)[1]} for {raw!r:.60}"
    if send.value is not None:
        # Of runs recorded before, nothing tells whether text that was sent is base64.
        sent = (send.value, send.encoding or encoding)
        return None if (value, encoding) == sent else f"value {value!r:.60} in {encoding}, sent was {sent!r:.80}"
    return _other_content(raw, send)


def _other_content(raw: bytes, send: Send) -> str | None:
    """In what bytes differ from a well-formed record as it is sent: compact JSON, its fields in this order."""
    content = json_object(raw)
    if content is None:
        return f"value {raw!r:.60} is not the JSON that was sent"
    if bad := next((name for name in _FIELDS if _other(content.get(name), getattr(send, name))), None):
        return f"value holds another {bad} than was sent"
    if crc_of(*(content.get(name) for name in ("id", "user", "event_time_ms", "payload"))) != send.crc:
        return "value holds another payload than was sent"
    whole = compact({name: content[name] for name in ("id", "user", "event_time_ms", "payload", "crc")})
    return None if raw == whole else f"value {raw!r:.160} is not what was sent, byte for byte: {whole!r:.160}"


def expectation(case: Case, sink: str) -> Expectation:
    """Tell what a sink of this run must hold; raises EvidenceError when the evidence for it is missing."""
    if case.manifest.control is not None:
        return AcceptedRows(case.sends, _control_ids(case.sends), None)
    reference = case.reference
    if sink == "accepted":
        return AcceptedRows(case.sends, reference.accepted, reference.epochs_of)
    if sink == ACCEPTED_ROWS:
        return AcceptedTable(case.sends, reference.accepted, None)
    if sink == "dead_letter":
        _require_bytes(case)
        return DeadLetterRows(case.sends, reference.outcomes, reference.epochs_of)
    if sink == "user_counts":
        return CountRows(reference.user_counts, user_window_of)
    return CountRows(reference.global_counts, window_of)


def _require_bytes(case: Case) -> None:
    """Demand that the ground truth has the bytes of every malformed record; its fields do not tell them."""
    told = bool(case.manifest.schemas)
    for number, send in enumerate(case.sends, start=1):
        if is_malformed(send) and (send.value is None or (told and send.encoding is None)):
            raise EvidenceError(
                "a malformed send does not hold its bytes", f"{case.run.sent_path}:{number}", "judge an unaltered run"
            )


def _control_ids(sends: list[Send]) -> dict[str, int]:
    """Ids a control must let through once: it has no watermark, so the generator's word decides what is late."""
    ids: dict[str, int] = {}
    for index, send in enumerate(sends):
        if send.id is not None and send.kind != "late" and not is_malformed(send):
            ids.setdefault(send.id, index)
    return ids
