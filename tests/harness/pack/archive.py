"""The pack of a run: one `tar.xz` of everything that the judge reads, and of what it said.

`pack.json` in it names every file with its SHA-256. A file of lines is a folder of templates and columns
(`tests.harness.pack.lines`), every other file is there as it was.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import orjson

from infra.errors import UserError
from tests.harness.pack import lines
from tests.harness.pack.files import CONTROLS, HISTORY, Referred, evidence_in, folder_of, lines_of, workload_in
from tests.harness.pack.references import References
from tests.harness.pack.workload import RecordedWorkload

SUFFIX: Final = ".tar.xz"
INDEX: Final = "pack.json"
FORMAT: Final = 1
WHOLE, LINES = "whole", "lines"
"""How a file is stored."""


class PackError(UserError):
    """A pack cannot be read, or is not what was packed; the message says which file, and what to do."""


@dataclass(frozen=True)
class Pack:
    """What a pack holds: contents by name."""

    members: Mapping[str, bytes]

    @classmethod
    def of(cls, packed: Path) -> Self:
        """Read a kept run. Raises PackError, OSError."""
        try:
            content = lzma.decompress(packed.read_bytes())
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
                return cls({one.name: tar.extractfile(one).read() for one in tar if one.isfile()})  # type: ignore[union-attr]
        except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
            raise PackError(f"{packed} is damaged ({error}): take it again from where it is kept") from error

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Everything in it that is text, by name; the rest is numbers."""
        for name, content in self.members.items():
            if lines.COLUMNS not in PurePosixPath(name).parts:
                yield name, content

    def compressed(self) -> bytes:
        """The bytes of the file; the same run gives the same bytes."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, content in self.members.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return lzma.compress(archive.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def pack(run: Path, commit: str | None = None) -> Pack:
    """Pack a run directory with its controls, and see that all of it comes out again.

    Args:
        run: the run directory.
        commit: whose code packs it; it is what unpacks it for certain.

    Raises:
        OSError: a file cannot be read.
    """
    members: dict[str, bytes] = {}
    files: list[dict[str, Any]] = []
    workloads: dict[str, Any] = {}
    for folder in (run, *sorted(path for path in run.glob(f"{CONTROLS}/*") if path.is_dir())):
        workload = workload_in(folder)
        if workload is not None:
            workloads[_name(folder, run)] = workload.document
        references = Referred(folder, workload)
        for path in evidence_in(folder):
            name, digest = _name(path, run), _digest(path)
            columns = _columns(path, references.of(path), digest)
            members |= {f"{name}/{key}": content for key, content in columns.items()} or {name: path.read_bytes()}
            stored = LINES if columns else WHOLE
            files.append({"path": name, "bytes": path.stat().st_size, "sha256": digest, "stored": stored})
    index = {"format": FORMAT, "packed_by": commit, "workloads": workloads, "files": files}
    return Pack({INDEX: orjson.dumps(index, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), **members})


def is_packed(run: Path) -> bool:
    """Whether it is a kept run, and no run directory."""
    return run.name.endswith(SUFFIX) and run.is_file()


def name_of(run: Path) -> str:
    """The name of a run, kept or not."""
    return run.resolve().name.removesuffix(SUFFIX)


def unpack(packed: Path, to: Path, *, lines_too: bool = True) -> None:
    """Write the run directory that a pack holds into a folder.

    Args:
        packed: the kept run.
        to: the folder.
        lines_too: whether also what was sent and read, which takes a second for 20,000 records.

    Raises:
        PackError: the pack cannot be read, or a file comes out otherwise than it was packed.
        OSError: a file cannot be read or written.
    """
    members = Pack.of(packed).members
    try:
        index = orjson.loads(members[INDEX])
        if index["format"] != FORMAT:
            raise PackError(f"{packed} has format {index['format']}, not {FORMAT}: read it with what packed it")
        commit, files = index["packed_by"], [(one["path"], one["sha256"], one["stored"]) for one in index["files"]]
        workloads = {name: RecordedWorkload.of(document) for name, document in index["workloads"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise PackError(f"{packed} is damaged: {INDEX} cannot be read ({error!r}); take it again") from error
    folders = {name: Referred(to / name, workload) for name, workload in workloads.items()}
    for name, digest, stored in files:
        if stored == LINES and not lines_too:
            continue
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise PackError(f"{packed} is damaged: {name} is no path in a run directory; take it again")
        path = to / name
        folder = folder_of(path, to)
        referred = folders.setdefault(_name(folder, to), Referred(folder, None))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(path, members, name, stored, referred)
            why = "" if _digest(path) == digest else "its bytes are others"
        except (ValueError, LookupError, TypeError) as error:
            why = repr(error)
        if why:
            raise PackError(
                f"{packed}: {name} does not come out as it was packed ({why}). Either the pack was altered, or this "
                f"checkout makes the records of a seed otherwise: check out commit {commit}, whose code packed it, and "
                "check the run there"
            )


def _write(path: Path, members: Mapping[str, bytes], name: str, stored: str, referred: Referred) -> None:
    if stored == WHOLE:
        path.write_bytes(members[name])
        return
    columns = {key.removeprefix(f"{name}/"): one for key, one in members.items() if key.startswith(f"{name}/")}
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in lines.unpack(columns, referred.of(path)))


def _columns(path: Path, references: References, digest: str) -> dict[str, bytes]:
    """A file of lines as columns; nothing where it is none, or would not come out again."""
    if path.suffix != ".jsonl" or path.name == HISTORY:
        return {}
    packed = lines.pack(lines_of(path), references)
    made = hashlib.sha256()
    for line in lines.unpack(packed, references):
        made.update(line + b"\n")
    return packed if made.hexdigest() == digest else {}


def _name(path: Path, run: Path) -> str:
    return path.relative_to(run).as_posix()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
