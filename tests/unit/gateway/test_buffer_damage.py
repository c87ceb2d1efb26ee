"""A buffer whose files are torn, damaged or lost: what was accepted is read or told, and no ordinal is used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from effectively_once.gateway.record import Record, RecordId
from tests.unit.gateway.buffers import append, body, files, leave, opened, read, read_again


def test_torn_at_every_byte_what_was_accepted_before_is_read_and_the_rest_is_reported(directory: Path) -> None:
    buffer = opened(directory)
    append(buffer, "accepted one")
    append(buffer, "accepted two")
    (path,) = files(directory)
    accepted = path.stat().st_size
    append(buffer, "never returned to its caller")
    buffer.close()
    whole = path.read_bytes()
    for size in range(accepted, len(whole)):
        path.write_bytes(whole[:size])
        # Twice: what is reported is not gone because it was looked at.
        for _ in range(2):
            again = opened(directory)
            assert list(read(again).values()) == ["accepted one", "accepted two"]
            assert [repair.torn_end for repair in again.repairs] == [True] * (size > accepted)
            again.close()


def test_records_of_a_new_opening_do_not_stand_behind_a_torn_end(directory: Path) -> None:
    leave(directory, ["a"], ["torn"])
    (path,) = files(directory)
    path.write_bytes(path.read_bytes()[:-1])
    leave(directory, ["b"])
    third = opened(directory)
    assert list(read(third).values()) == ["a", "b"]
    third.acknowledge(range(100))
    third.close()
    assert files(directory) == files(directory, "damaged") == []


def test_a_header_that_was_torn_while_it_was_written_holds_nothing_up(directory: Path) -> None:
    leave(directory, ["a"])
    (path,) = files(directory)
    whole = path.read_bytes()
    for number, size in enumerate((0, 1, 30), 7):
        path.with_name(f"{number:020d}.segment").write_bytes(whole[:size])
    again = opened(directory)
    assert list(read(again).values()) == ["a"]
    assert len(again.repairs) == len(files(directory, "damaged")) == 2
    append(again, "b")
    assert list(read(again).values()) == ["b"]
    again.close()


def test_damage_before_the_end_costs_its_own_record_is_no_torn_end_and_the_file_is_kept(directory: Path) -> None:
    leave(directory, ["a", "b", "c"])
    (path,) = files(directory)
    data = bytearray(path.read_bytes())
    data[data.index(body("b"))] ^= 1
    path.write_bytes(data)
    again = opened(directory)
    found = read(again)
    assert list(found.values()) == ["a", "c"]
    (repair,) = again.repairs
    assert not repair.torn_end
    assert "accepted records may be lost" in str(repair)
    again.acknowledge(found)
    again.close()
    assert [kept.read_bytes() for kept in files(directory, "damaged")] == [data]


def test_a_short_file_that_the_same_opening_wrote_on_behind_is_damage_and_no_torn_end(directory: Path) -> None:
    leave(directory, *([f"{number:0100d}"] for number in range(20)))
    first, *_ = files(directory)
    first.write_bytes(first.read_bytes()[:-1])
    again = opened(directory)
    assert [repair.torn_end for repair in again.repairs] == [False]
    assert len(read(again)) == 19
    again.close()


def test_a_record_that_holds_another_buffers_file_is_not_read_as_its_records_when_it_is_damaged(tmp_path: Path) -> None:
    leave(tmp_path / "other", *[["of the other buffer"]] * 5)
    (held,) = files(tmp_path / "other")
    buffer = opened(tmp_path / "buffer")
    record = Record(RecordId("gate", buffer.incarnation, 0), 1, None, held.read_bytes(), announced=True)
    buffer.append([record.encode()])
    buffer.close()
    (path,) = files(tmp_path / "buffer")
    path.write_bytes(path.read_bytes()[:-1])
    assert read_again(tmp_path / "buffer") == []


@pytest.mark.parametrize("content", [b"", b"12", b"12 99", b"\xff\xfe x", b"3 1 2"])
def test_without_a_readable_acknowledged_file_everything_is_sent_again_and_that_is_said(
    directory: Path, content: bytes
) -> None:
    buffer = opened(directory)
    append(buffer, "a", "b")
    buffer.acknowledge(list(read(buffer))[:1])
    buffer.close()
    (directory / "acknowledged").write_bytes(content)
    again = opened(directory)
    assert list(read(again).values()) == ["a", "b"]
    assert [repair.path.name for repair in again.repairs] == ["acknowledged"]
    again.close()


def test_a_lost_acknowledged_file_and_lost_segments_never_give_an_ordinal_that_hides_a_record(directory: Path) -> None:
    buffer = opened(directory)
    append(buffer, "a", "b")
    buffer.acknowledge(read(buffer))
    buffer.close()
    (directory / "acknowledged").unlink()
    again = opened(directory)
    append(again, "c")
    assert list(read(again).values()) == ["c"]
    again.close()
    assert read_again(directory) == ["c"]


def test_the_ordinal_of_a_file_that_was_put_aside_is_not_used_again(directory: Path) -> None:
    """Damaged as well, the new file would take its place, and with it what is left of accepted records."""
    directory.mkdir()
    kept = directory / f"{7:020d}.damaged"
    kept.write_bytes(b"what is left")
    buffer = opened(directory)
    append(buffer, "a")
    (written,) = files(directory)
    assert int(written.stem) > 7
    buffer.close()
    assert kept.read_bytes() == b"what is left"
