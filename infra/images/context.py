"""Build contexts as tar streams: files are read where they lie, nothing is copied before the engine gets it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from infra.cluster.engine import Engine, EngineError
from infra.toolchain.command import tail

# One time for everything: an image depends on contents, not on when they were written.
MTIME = 1_767_225_600


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in member.name or member.name.endswith(".pyc"):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = MTIME
    # Folders of a private cache are private; in an image everybody reads.
    member.mode |= 0o555 if member.isdir() or member.mode & 0o100 else 0o444
    return member


def write(out: IO[bytes], files: Mapping[str, Path | bytes]) -> None:
    """Write a context: `files` are contents, files or whole folders, by their path in it."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, dereference=False) as archive:
        for name, source in sorted(files.items()):
            if isinstance(source, bytes):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(source), 0o644
                archive.addfile(_plain(member), io.BytesIO(source))  # type: ignore[arg-type]
            else:
                archive.add(source.resolve(), name, filter=_plain)


def build(engine: Engine, tag: str, files: Mapping[str, Path | bytes], arguments: Mapping[str, str], log: Path) -> None:
    """Build an image from a context; output goes to `log`.

    Raises EngineError with the end of the log.
    """
    words = ["build", "--network", "host", "--force-rm", "--tag", tag]
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        child = subprocess.Popen(
            engine.command(*words, "-"),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=engine.environment(),
        )
        assert child.stdin is not None  # noqa: S101 - it was asked for
        broken = False
        try:
            with child.stdin as pipe:
                write(pipe, files)
        except BrokenPipeError:
            broken = True
        except BaseException:
            child.kill()
            child.wait()
            raise
        status = child.wait()
    if status or broken:
        raise EngineError(f"image {tag}: the build failed; {tail(log)}\n  log: {log}")
