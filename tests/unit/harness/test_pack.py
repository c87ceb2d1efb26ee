"""A pack gives a run back byte for byte, whatever its files hold, or says that it cannot."""

from __future__ import annotations

import io
import lzma
import random
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.harness.controls.names import CATALOG_OFF
from tests.harness.controls.shape import shape_of
from tests.harness.pack import lines, varints
from tests.harness.pack.archive import INDEX, PackError, pack, unpack
from tests.harness.pack.files import Referred, lines_of, workload_in
from tests.harness.pack.references import References
from tests.harness.run_directory import LinesWriter
from tests.harness.sends import crc_of_row
from tests.harness.spread import PARTITIONS
from tests.harness.subject import unpaced
from tests.harness.workload import seeded
from tests.harness.workload.record import line_of, partition_of
from tests.harness.workload.seeded import Seeded
from tests.unit.harness.recorded_run import RECORDED, unpacked

COMMIT = "94f5e5ba3a5f42335a9ebf0bae750a50f4d1c7a7"
SENT, ROWS, SEEN = "sent.jsonl", "observed/accepted.jsonl", "observed/accepted.concurrent.jsonl"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def packed(run: Path, to: Path) -> Path:
    to.write_bytes(pack(run, COMMIT).compressed())
    return to


def again(run: Path, folder: Path) -> dict[str, bytes]:
    """Files of a run that was packed and unpacked."""
    unpack(packed(run, folder / "run.tar.xz"), folder / "again")
    return contents(folder / "again")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of real servers; not to be changed."""
    return unpacked(RECORDED[-1], tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def compressed(recorded: Path) -> bytes:
    """Return the bytes of its pack."""
    return pack(recorded, COMMIT).compressed()


@pytest.fixture
def kept(compressed: bytes, tmp_path: Path) -> Path:
    """Return a pack of the recorded run, to be altered."""
    path = tmp_path / "run.tar.xz"
    path.write_bytes(compressed)
    return path


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(recorded, tmp_path / "runs" / recorded.name))


def test_a_recorded_run_comes_out_byte_for_byte_from_eight_bytes_a_send(
    recorded: Path, compressed: bytes, kept: Path, tmp_path: Path
) -> None:
    unpack(kept, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(recorded)
    sends = sum(1 for _ in lines_of(recorded / SENT)) - 1
    # A run as small as this has more bytes of history and chain than of records.
    assert len(compressed) < 8 * sends


def test_lines_of_every_file_are_told_by_what_they_refer_to(recorded: Path) -> None:
    found = pack(recorded).members
    index = orjson.loads(found[INDEX])
    assert index["workloads"]["."]["shape"]["span_ms"] == 12 * 60_000
    for name, most in ((SENT, 60), (ROWS, 2), ("observed/dead_letter.jsonl", 10), (SEEN, 4)):
        assert len(orjson.loads(found[f"{name}/{lines.TEMPLATES}"])) <= most
    assert set(varints.decode(found[f"{SEEN}/{lines.NUMBERS}crcs"])) == {0}


def test_the_same_run_gives_the_same_bytes(recorded: Path, compressed: bytes) -> None:
    assert pack(recorded, COMMIT).compressed() == compressed


@pytest.mark.parametrize(
    "alter",
    [
        lambda run: (run / SENT).write_bytes((run / SENT).read_bytes()[:-7]),
        lambda run: (run / ROWS).write_bytes(b"\xff\x00\n\n" + (run / ROWS).read_bytes()),
        lambda run: (run / SENT).unlink(),
        lambda run: (run / SEEN).write_bytes(b""),
        lambda run: (run / "manifest.json").write_bytes(b"[]"),
        lambda run: (run / "manifest.json").write_bytes(
            (run / "manifest.json").read_bytes().replace(b'"seed": 11', b'"seed": 12')
        ),
    ],
)
@pytest.mark.thinned(6)
def test_an_altered_run_comes_out_as_it_was_altered(run: Path, tmp_path: Path, alter: Callable[[Path], object]) -> None:
    alter(run)
    assert again(run, tmp_path) == contents(run)


@dataclass(frozen=True)
class Slices:
    """Some lines of each file that has lines, and what they refer to."""

    of: dict[str, tuple[list[bytes], References]]


@pytest.fixture(scope="module")
def slices(recorded: Path) -> Slices:
    """Return slices of every file of the recorded run."""
    referred = Referred(recorded, workload_in(recorded))
    paths = [recorded / SENT, *sorted((recorded / "observed").glob("*.jsonl"))]
    return Slices({path.name: ([*lines_of(path)][-25:], referred.of(path)) for path in paths})


NUMBERS = st.one_of(st.integers(), st.integers(-3, 3), st.sampled_from([2**62, -(2**62), 2**63, 2**64, -(2**63)]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), NUMBERS, st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_whatever_is_changed_in_a_line_it_comes_out_so(slices: Slices, data: st.DataObject) -> None:
    taken, references = slices.of[data.draw(st.sampled_from(sorted(slices.of)))]
    changed = list(taken)
    for at in data.draw(st.lists(st.integers(0, len(taken) - 1), min_size=1, max_size=4)):
        changed[at] = data.draw(st.one_of(_other_value(changed[at]), _other_bytes(changed[at])))
    found = lines.pack(changed, references)
    assert list(lines.unpack(found, references)) == changed


HARD = (
    b"",
    b"7",
    b"[1]",
    b"{}",
    b"null",
    b'{"n": 1}',
    b'{"n":1,"n":2}',
    b'{"n":1e3}',
    b'{"n":-0}',
    b'{"":1}',
    b'{"a.b":1}',
    b'{"source.1":1}',
    b'{"source":{"1":0,"2":0}}',
    b'{"n":[1,2]}',
    b'{"n":18446744073709551615}',
    b'{"n":4611686018427387904}',
    b'{"source":["events",[1],2]}',
    b'{"source":["events",0,0],"id":7}',
    b'{"partition":[0],"offsets":0,"crcs":[]}',
    b'{"partition":0,"offsets":[0,1],"crcs":[1]}',
    b'{"id":"\\u0001id\\u0001"}',
    b'{"id":"\x01id\x01"}',
    b'{"id":"\\ud800"}',
    b'{"id":"closer-1"}',
    b'{"id":"closer-1","crc":7,"@send":1}',
    b"\xff",
    b"~{}",
    b"=",
    b'{"n":0,"offset":true,"sent_at":null}',
    b"NaN",
    b"\r",
    b'{"a":[]}',
    b'{"a":{},"b":[[],{}]}',
)


def test_lines_of_every_odd_form_come_out_as_they_are(slices: Slices) -> None:
    for taken, references in slices.of.values():
        mixed = [line for hard in HARD for line in (hard, taken[0], hard)]
        assert list(lines.unpack(lines.pack(mixed, references), references)) == mixed


def _other_value(line: bytes) -> st.SearchStrategy[bytes]:
    """The line with another value, or another member."""
    try:
        row: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return st.just(line)
    if not isinstance(row, dict):
        return st.just(line)
    values = VALUES | st.tuples(st.just("events"), VALUES, VALUES)
    names = st.sampled_from([*row, "source.1", "more"])
    return st.builds(lambda name, value: _dumped({**row, name: value}), names, values)


def _dumped(row: Any) -> bytes:
    try:
        return orjson.dumps(row)
    except TypeError:
        return repr(row).encode("utf-8", "surrogatepass").replace(b"\n", b"")


def _other_bytes(line: bytes) -> st.SearchStrategy[bytes]:
    """The line with some bytes more or less, at any place."""
    return st.builds(
        lambda at, less, more: line[:at] + more.replace(b"\n", b"") + line[at + less :],
        st.integers(0, len(line)),
        st.integers(0, 9),
        st.binary(max_size=6) | st.sampled_from([b" ", b'"n":1,', b"\x01id\x01", b"\x02n\x02", b"1e5", b"-0"]),
    )


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_come_back_from_their_bytes(numbers: list[int]) -> None:
    assert varints.decode(varints.encode(numbers)) == numbers


@pytest.mark.parametrize("content", [b"\x80", b"\x01\xff", b"\x80" * 11 + b"\x01"])
def test_bytes_that_are_no_numbers_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="number"):
        varints.decode(content)


@pytest.mark.deep
def test_a_control_takes_two_bytes_a_record(tmp_path: Path) -> None:
    run, drawn = tmp_path / "run", random.Random(7)
    control = run / "controls" / CATALOG_OFF.name
    records = list(Seeded(7, shape_of(CATALOG_OFF)))[:3_000]
    with LinesWriter(control / SENT) as sent, LinesWriter(control / ROWS) as rows:
        ends = [0, 0]
        for n, record in enumerate(records):
            partition = partition_of(record, 2)
            sent.write(line_of(record, "c.events", partition, ends[partition], 1_750_000_000_000 + n))
            ends[partition] += 1
        for partition in (0, 1):
            # A task reads a partition of the input, and a sink's partition gets a share of each.
            read = sorted(records, key=lambda record: partition_of(record, 2))
            there = [record for record in read if drawn.random() < 0.5]
            for offset, record in enumerate(there):
                # Spark's JSON of the record: it has no source, no epoch.
                row = {name: getattr(record, name) for name in ("id", "user", "event_time_ms", "payload", "crc")}
                at = {"message": {"key": record.user}, "partition": partition, "offset": offset}
                rows.write({"sink": "accepted", **row, **at})
    seen = [crc_of_row(row) for line in lines_of(control / ROWS) if (row := orjson.loads(line)).get("partition") == 0]
    with LinesWriter(control / SEEN) as reader:
        # A reader of uncommitted records saw one that is not there in the end.
        reader.write({"t": 1, "partition": 0, "offsets": [*range(len(seen) + 1)], "crcs": [*seen, 7]})
    (control / "manifest.json").write_bytes(orjson.dumps({"seed": 7, "control": CATALOG_OFF.name}))
    (run / "manifest.json").write_bytes(b"{}")
    assert again(run, tmp_path) == contents(run)
    assert (tmp_path / "run.tar.xz").stat().st_size < 2 * len(records)


def test_a_stream_that_goes_on_through_outages_is_told_by_its_seed(tmp_path: Path) -> None:
    run, records = tmp_path / "run", 2_000
    subject = unpaced(7, records, 25.0, 100.0)
    planned = list(subject.records())
    with LinesWriter(run / SENT) as sent:
        # What was kept back for a partition or a gateway comes behind what was sent meanwhile.
        for n, record in enumerate([*planned[:500], *planned[900:], *planned[500:900]]):
            partition = partition_of(record, PARTITIONS)
            sent.write(line_of(record, "events", partition, n, 1_750_000_000_000 + n, gateway="gateway-0"))
    workload = {"kind": subject.kind, "sent": records}
    settings = {"rate": "25", "skew": "100"}
    (run / "manifest.json").write_bytes(orjson.dumps({"seed": 7, "workload": workload, "settings": settings}))
    assert again(run, tmp_path) == contents(run)
    assert (tmp_path / "run.tar.xz").stat().st_size < 4 * records


def change_member(path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Change a member of a pack, and compress it anew."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as tar:
        members = {one.name: (tar.extractfile(one) or io.BytesIO()).read() for one in tar}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for one, before in members.items():
            after = change(before) if one == name else before
            member = tarfile.TarInfo(one)
            member.size = len(after)
            tar.addfile(member, io.BytesIO(after))
    path.write_bytes(lzma.compress(content.getvalue()))


def test_a_changed_byte_anywhere_is_refused(kept: Path, tmp_path: Path) -> None:
    content = kept.read_bytes()
    for at in range(0, len(content), len(content) // 12):
        kept.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(PackError, match=r"run\.tar\.xz"):
            unpack(kept, tmp_path / str(at))
    kept.write_bytes(content[: len(content) // 2])
    with pytest.raises(PackError, match="damaged"):
        unpack(kept, tmp_path / "half")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("history.jsonl", "history.jsonl"),
        (f"{SENT}/{lines.TEMPLATES}", SENT),
        (f"{SENT}/{lines.NUMBERS}offset", SENT),
        (f"{ROWS}/{lines.NUMBERS}epoch", ROWS),
        (f"{SEEN}/{lines.NUMBERS}crcs", SEEN),
    ],
)
@pytest.mark.thinned(3)
def test_a_member_that_was_altered_is_named_with_the_file_it_is_of(
    kept: Path, tmp_path: Path, name: str, file: str
) -> None:
    change_member(kept, name, lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(PackError, match=f"{file} does not come out as it was packed"):
        unpack(kept, tmp_path / "again")


def test_an_index_that_leads_elsewhere_is_refused(kept: Path, tmp_path: Path) -> None:
    change_member(kept, INDEX, lambda content: content.replace(b'"history.jsonl"', b'"../../history.jsonl"'))
    with pytest.raises(PackError, match="no path in a run directory"):
        unpack(kept, tmp_path / "folder" / "again")
    assert not (tmp_path / "history.jsonl").exists()


def test_other_code_of_the_workload_is_refused_with_the_way_out(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(seeded.SCRIPTS, 3, "-мак")
    with pytest.raises(PackError, match=rf"{SENT} does not come out .* check out commit {COMMIT}"):
        unpack(kept, tmp_path / "again")
