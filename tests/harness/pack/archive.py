"""The pack of a run: one `tar.xz` of everything that the judge reads.

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
from typing import Any, Final

import orjson

from tests.harness.pack import lines
from tests.harness.pack.references import References, Rows, Sends
from tests.harness.pack.workload import RecordedWorkload, workload_of
from tests.harness.workload.errors import InputError

NAME: Final = "run.tar.xz"
INDEX: Final = "pack.json"
FORMAT: Final = 1
MANIFEST, HISTORY, SENT, OBSERVED, CONTROLS = "manifest.json", "history.jsonl", "sent.jsonl", "observed", "controls"
SEEN = ".concurrent.jsonl"
WHOLE, LINES = "whole", "lines"
"""How a file is stored."""


class PackError(Exception):
    """A pack cannot be read, or is not what was packed; the message says which file, and what to do."""


@dataclass(frozen=True)
class Pack:
    """What a pack holds: contents by name."""

    members: Mapping[str, bytes]

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
        workload = _workload_in(folder)
        if workload is not None:
            workloads[_name(folder, run)] = workload.document
        references = _Referred(folder, workload)
        for path in _evidence_in(folder):
            name, digest = _name(path, run), _digest(path)
            columns = _columns(path, references.of(path), digest)
            members |= {f"{name}/{key}": content for key, content in columns.items()} or {name: path.read_bytes()}
            stored = LINES if columns else WHOLE
            files.append({"path": name, "bytes": path.stat().st_size, "sha256": digest, "stored": stored})
    index = {"format": FORMAT, "packed_by": commit, "workloads": workloads, "files": files}
    return Pack({INDEX: orjson.dumps(index, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), **members})


def unpack(packed: Path, to: Path) -> None:
    """Write the run directory that a pack holds into a folder.

    Raises:
        PackError: the pack cannot be read, or a file comes out otherwise than it was packed.
        OSError: a file cannot be read or written.
    """
    members = _members(packed)
    try:
        index = orjson.loads(members[INDEX])
        if index["format"] != FORMAT:
            raise PackError(f"{packed} has format {index['format']}, and this checkout reads {FORMAT}")
        commit, files = index["packed_by"], [(one["path"], one["sha256"], one["stored"]) for one in index["files"]]
        workloads = {name: RecordedWorkload.of(document) for name, document in index["workloads"].items()}
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise PackError(f"{packed} is damaged: {INDEX} cannot be read ({error!r}); take it again") from error
    folders = {name: _Referred(to / name, workload) for name, workload in workloads.items()}
    for name, digest, stored in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise PackError(f"{packed} is damaged: {name} is no path in a run directory")
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if stored == WHOLE:
                path.write_bytes(members[name])
            else:
                prefix = f"{name}/"
                columns = {key.removeprefix(prefix): one for key, one in members.items() if key.startswith(prefix)}
                folder = _folder_of(path, to)
                references = folders.setdefault(_name(folder, to), _Referred(folder, None))
                with path.open("wb") as file:
                    file.writelines(line + b"\n" for line in lines.unpack(columns, references.of(path)))
            why = "its bytes are others" if _digest(path) != digest else ""
        except (ValueError, LookupError, TypeError) as error:
            why = repr(error)
        if why:
            raise PackError(
                f"{packed}: {name} does not come out as it was packed ({why}). Either the pack was altered, or this "
                "checkout generates the workload otherwise: "
                + (f"check out commit {commit}, whose code packed it, and check the run there" if commit else "take the commit that the manifest names")
            )


class _Referred:
    """What the lines of a run directory's files refer to."""

    def __init__(self, folder: Path, workload: RecordedWorkload | None) -> None:
        self._sent = folder / SENT
        self._observed = folder / OBSERVED
        self._workload = workload
        self._sends: Sends | None = None

    def of(self, path: Path) -> References:
        """References for a file, made of those that come before it."""
        if path == self._sent:
            return self._workload.plan if self._workload else References()
        if path.name.endswith(SEEN):
            return Rows(_lines(path.with_name(path.name.removesuffix(SEEN) + ".jsonl")))
        if path.parent == self._observed and path.suffix == ".jsonl":
            self._sends = self._sends or Sends(_lines(self._sent))
            return self._sends
        return References()


def _evidence_in(folder: Path) -> Iterator[Path]:
    """Every file that the judge reads, each behind those it refers to."""
    observed = sorted((folder / OBSERVED).glob("*"), key=lambda path: (path.name.endswith(SEEN), path.name))
    for path in (folder / MANIFEST, folder / HISTORY, folder / SENT, *observed):
        if path.is_file():
            yield path


def _columns(path: Path, references: References, digest: str) -> dict[str, bytes]:
    """A file of lines as columns; nothing where it is none, or would not come out again."""
    if path.suffix != ".jsonl" or path.name == HISTORY:
        return {}
    packed = lines.pack(_lines(path), references)
    made = hashlib.sha256()
    for line in lines.unpack(packed, references):
        made.update(line + b"\n")
    return packed if made.hexdigest() == digest else {}


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")


def _workload_in(folder: Path) -> RecordedWorkload | None:
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return workload_of(manifest, _lines(folder / SENT)) if isinstance(manifest, dict) else None


def _folder_of(path: Path, run: Path) -> Path:
    """The run directory that a file is of: the run, or one of its controls."""
    parts = path.relative_to(run).parts
    return run / CONTROLS / parts[1] if parts[0] == CONTROLS else run


def _name(path: Path, run: Path) -> str:
    return path.relative_to(run).as_posix()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _members(packed: Path) -> dict[str, bytes]:
    try:
        content = lzma.decompress(packed.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            return {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]
    except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
        raise PackError(f"{packed} is damaged ({error}): take it again from where it is kept") from error
