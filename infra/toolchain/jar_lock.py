"""Which bytes each jar has: `jars.lock` beside a `pom.xml`, a line of SHA-256 and Maven coordinates for every jar.

Maven compares what it fetched with checksums that the same repository serves: that finds a broken transfer, and not
another jar under the name of a release. A release does not change, so the first one that was seen is the one to have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.toolchain.command import ToolchainError

NAME = "jars.lock"
_HEAD = "# SHA-256 and coordinates of every jar that pom.xml asks for, also indirectly. `make lock` writes it.\n"


@dataclass(frozen=True, order=True)
class Jar:
    """A jar as Maven names it, and the SHA-256 (hex) of its bytes."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Group, artifact, version, and the classifier where there is one."""
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)

    @property
    def file(self) -> str:
        """Name of the jar in a folder of a class path."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"


def hash_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with path.open("rb") as body:
        return hashlib.file_digest(body, "sha256").hexdigest()


def read_layout(repository: Path) -> list[Jar]:
    """Return the jars below a folder that is laid out as a Maven repository: group, artifact, version, file."""
    found = []
    for path in sorted(repository.rglob("*.jar")):
        *group, artifact, version, _ = path.relative_to(repository).parts
        classifier = path.stem.removeprefix(f"{artifact}-{version}").removeprefix("-")
        found.append(Jar(".".join(group), artifact, version, classifier, hash_file(path)))
    return found


def read(lock: Path) -> list[Jar]:
    """Return what a lock names. Raises ToolchainError when it is not there or a line is none of a lock."""
    try:
        lines = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    except OSError as error:
        raise ToolchainError(f"{lock} cannot be read: {error.strerror}; `make lock` writes it") from error
    found = []
    for line in lines:
        sha256, _, coordinates = line.partition("  ")
        parts = coordinates.split(":")
        if len(sha256) != hashlib.sha256().digest_size * 2 or len(parts) not in (3, 4) or not all(parts):
            raise ToolchainError(f"{lock}: no checksum and coordinates in {line!r}; `make lock` writes it anew")
        group, artifact, version, *classifier = parts
        found.append(Jar(group, artifact, version, "".join(classifier), sha256))
    return found


def write(lock: Path, jars: Iterable[Jar]) -> None:
    """Write a lock.

    Raises ToolchainError when a jar that it names has other bytes now: nobody who makes a lock should take them.
    """
    jars = sorted(jars)
    before = {one.coordinates: one.sha256 for one in (read(lock) if lock.exists() else [])}
    for one in jars:
        if before.get(one.coordinates, one.sha256) != one.sha256:
            raise ToolchainError(
                f"{one.coordinates} has sha256 {one.sha256}, and {lock} has {before[one.coordinates]}: a release does "
                "not change. Ask whoever runs your mirror of Maven's repository; if you know why, take its line out "
                "of the lock, then `make lock`"
            )
    lock.write_text(_HEAD + "".join(f"{one.sha256}  {one.coordinates}\n" for one in jars))


def require_resolved(found: Iterable[Jar], lock: Path) -> None:
    """Compare what Maven brought with a lock. Raises ToolchainError with every jar that is not as it says."""
    _refuse(
        {one.coordinates: one.sha256 for one in found},
        {one.coordinates: one.sha256 for one in read(lock)},
        lock,
        "Maven's repository or your copy of it (~/.m2/repository) has another jar: delete that copy of it, and ask "
        "whoever runs the mirror. Only after a change of pom.xml: `make lock`",
    )


def require_kept(folder: Path, lock: Path) -> None:
    """Compare the jars of a folder of the cache with a lock. Raises ToolchainError with every one that differs."""
    _refuse(
        {path.name: hash_file(path) for path in folder.glob("*.jar")},
        {one.file: one.sha256 for one in read(lock)},
        lock,
        f"delete {folder}, and the next command resolves it anew",
    )


def _refuse(found: dict[str, str], locked: dict[str, str], lock: Path, way_out: str) -> None:
    if wrong := [*_differences(found, locked)]:
        raise ToolchainError(f"jars are not those of {lock}:\n  " + "\n  ".join(wrong) + f"\n{way_out}")


def _differences(found: dict[str, str], locked: dict[str, str]) -> Iterator[str]:
    for name in sorted({*found, *locked}):
        if name not in found:
            yield f"{name} is missing"
        elif name not in locked:
            yield f"{name} is not in the lock (sha256 {found[name]})"
        elif found[name] != locked[name]:
            yield f"{name} has sha256 {found[name]}, not {locked[name]}"
