"""The buffer: a record that was accepted is read until it is acknowledged, whatever happens in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from effectively_once.gateway.buffer import Buffer
from effectively_once.gateway.errors import BufferDamagedError, BufferFormatError, BufferLockedError
from effectively_once.gateway.frames import MAGIC
from effectively_once.gateway.record import Record, RecordId
from effectively_once.gateway.segment import Header
from tests.unit.gateway.buffers import append, files, leave, opened, read, read_again
from tests.unit.gateway.disks import FullDisk, LyingDisk, StubbornDisk


def test_what_is_appended_is_read_once_and_again_after_a_new_opening(directory: Path) -> None:
    first = opened(directory)
    append(first, "a", "b")
    append(first, "c")
    assert list(read(first).values()) == ["a", "b", "c"]
    assert read(first) == {}
    first.close()
    assert read_again(directory) == ["a", "b", "c"]


def test_a_record_keeps_every_field(directory: Path, buffer: Buffer) -> None:
    for key in (None, b"", b"k\x00"):
        record = Record(RecordId("gate", buffer.incarnation, 3), 10**15 - 1, key, b"\xff\x00", announced=key is None)
        buffer.append([record.encode()])
        ((_, found),) = buffer.read()
        assert found == record


def test_the_acknowledged_beginning_is_not_read_again_and_its_segments_go(directory: Path) -> None:
    buffer = opened(directory)
    for number in range(40):
        append(buffer, f"{number:0100d}")
    assert len(files(directory)) > 3
    ordinals = list(read(buffer))
    # Out of order: what counts is the beginning without a gap.
    buffer.acknowledge(ordinals[1:20])
    assert len(files(directory)) > 3
    assert buffer.acknowledged == 0
    held = buffer.unacknowledged_bytes
    buffer.acknowledge(ordinals[:1])
    assert buffer.acknowledged == ordinals[19] + 1
    assert buffer.unacknowledged_bytes == held // 2
    left = len(files(directory))
    assert left < 4 or left <= 5
    buffer.close()
    again = opened(directory)
    assert list(read(again).values()) == [f"{number:0100d}" for number in range(20, 40)]
    assert again.unacknowledged_bytes == held // 2
    again.acknowledge(ordinals[20:])
    again.close()
    assert files(directory) == []


def test_ordinals_go_on_after_everything_was_acknowledged_and_deleted(directory: Path) -> None:
    seen: list[int] = []
    for _ in range(3):
        buffer = opened(directory)
        append(buffer, "x")
        seen += (ordinals := list(read(buffer)))
        buffer.acknowledge(ordinals)
        buffer.close()
        assert files(directory) == []
    assert seen == sorted(set(seen))


def test_an_opening_draws_an_incarnation_and_old_records_keep_theirs(directory: Path) -> None:
    first = opened(directory)
    append(first, "a")
    first.close()
    second = opened(directory)
    append(second, "b")
    records = [record for _, record in second.read() + second.read()]
    assert [record.id.incarnation for record in records] == [first.incarnation, second.incarnation]
    assert first.incarnation != second.incarnation
    second.close()


def test_a_full_disk_refuses_the_whole_batch_and_takes_the_next_when_there_is_room(directory: Path) -> None:
    FullDisk.room = 400
    buffer = opened(directory, open_file=FullDisk)
    append(buffer, "accepted")
    with pytest.raises(OSError, match="No space"):
        append(buffer, "r" * 100, "s" * 500)
    with pytest.raises(OSError, match="No space"):
        append(buffer, "t" * 500)
    assert list(read(buffer).values()) == ["accepted"]
    FullDisk.room = 10_000
    append(buffer, "later")
    assert list(read(buffer).values()) == ["later"]
    buffer.close()
    again = opened(directory)
    assert list(read(again).values()) == ["accepted", "later"]
    assert again.repairs == []
    again.close()


def test_a_disk_that_has_room_for_nothing_but_an_empty_file_leaves_nothing_to_wait_for(directory: Path) -> None:
    buffer = opened(directory, open_file=FullDisk)
    # Room for a part of the header, then for the header and a part of the record.
    for room in (10, 200):
        FullDisk.room = room
        with pytest.raises(OSError, match="No space"):
            append(buffer, "x" * 500)
    assert buffer.acknowledged == buffer.end
    buffer.close()
    assert files(directory) == []


def test_after_a_failed_fsync_nothing_more_is_written_to_that_file(directory: Path) -> None:
    buffer = opened(directory, open_file=LyingDisk)
    append(buffer, "accepted")
    LyingDisk.failures = 1
    with pytest.raises(OSError, match="Input/output"):
        append(buffer, "refused")
    append(buffer, "later")
    assert list(read(buffer).values()) == ["accepted", "later"]
    assert len(files(directory)) == 2
    buffer.close()
    assert read_again(directory) == ["accepted", "later"]


def test_a_disk_that_takes_nothing_back_does_not_bring_a_refused_record_to_the_running_sender(directory: Path) -> None:
    buffer = opened(directory, open_file=StubbornDisk)
    append(buffer, "accepted")
    StubbornDisk.failures = LyingDisk.failures = 1
    with pytest.raises(OSError, match="Input/output"):
        append(buffer, "refused")
    append(buffer, "later")
    assert list(read(buffer).values()) == ["accepted", "later"]
    buffer.close()


def test_a_gateway_in_another_process_is_refused_and_one_that_died_is_not_in_the_way(directory: Path) -> None:
    code = (
        "import sys, pathlib, time\n"
        "from effectively_once.gateway.buffer import Buffer\n"
        "kept = Buffer(pathlib.Path(sys.argv[1]), 'gate', 'events', 1024)\n"
        "print('open', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(BufferLockedError, match=str(child.pid)):
            opened(directory)
        child.kill()
        child.wait()
    opened(directory).close()


def test_a_buffer_for_another_topic_is_refused_unless_it_is_empty(directory: Path) -> None:
    buffer = opened(directory)
    append(buffer, "a")
    ordinals = list(read(buffer))
    buffer.close()
    for _ in range(2):  # the refusal leaves no lock behind
        with pytest.raises(BufferFormatError, match="for topic events, not others"):
            opened(directory, topic="others")
    again = opened(directory)
    read(again)
    again.acknowledge(ordinals)
    again.close()
    opened(directory, topic="others").close()


def test_a_buffer_of_a_newer_version_is_refused_and_not_touched(directory: Path) -> None:
    directory.mkdir()
    path = directory / f"{3:020d}.segment"
    path.write_bytes(Header("gate", "0" * 16, "events", format=2).encode(3) + b"who knows")
    before = path.read_bytes()
    with pytest.raises(BufferFormatError, match="format 2"):
        opened(directory)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + b"?",
        lambda content: b"?" * len(content),
    ],
    ids=["cut short", "last byte", "all"],
)
def test_records_that_are_gone_before_they_were_read_are_not_passed_over(
    directory: Path, buffer: Buffer, damage: Callable[[bytes], bytes]
) -> None:
    """What comes after them would be acknowledged in their place, and the file deleted."""
    append(buffer, "a", "b")
    read(buffer)
    (file,) = files(directory)
    before = file.read_bytes()
    append(buffer, "c", "d")
    whole = file.read_bytes()
    file.write_bytes(before + damage(whole[len(before) :]))
    for _ in range(2):
        with pytest.raises(BufferDamagedError, match="held records that were accepted"):
            buffer.read()
    file.write_bytes(whole)
    assert list(read(buffer).values()) == ["c", "d"]


def test_a_cut_between_two_records_is_found_as_well(directory: Path, buffer: Buffer) -> None:
    """Every frame that is left is whole: only their bytes tell that some are missing."""
    append(buffer, "a")
    (file,) = files(directory)
    first = file.read_bytes()
    append(buffer, "b")
    file.write_bytes(first)
    with pytest.raises(BufferDamagedError):
        buffer.read()


def test_damage_that_an_opening_has_told_of_is_not_told_again(directory: Path) -> None:
    leave(directory, ["a", "b", "c"])
    (file,) = files(directory)
    content = bytearray(file.read_bytes())
    # The value of the second record, before the frame of the third: checksums may hold any byte.
    content[content.index(b"b" + MAGIC)] ^= 1
    file.write_bytes(content)
    second = opened(directory)
    assert len(second.repairs) == 1
    assert list(read(second).values()) == ["a", "c"]
    second.close()
