"""What `make run` keeps of a pipeline from one run to the next: its servers' data, their keys, and what made them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from infra.embedded.postgres import make_shared_folder
from infra.errors import UserError

MARK = "effectively-once-run.json"
"""In every folder that is a run's: none without it is gone on with, or removed."""
LASTING = (Path("/var/tmp"),)  # noqa: S108  mkdtemp makes a private one in it; it outlives a restart of the machine
COMPARED = {
    "kafka": ("Kafka", "use the checkout that wrote them"),
    "postgres": ("PostgreSQL", "set EFFECTIVELY_ONCE_POSTGRES to the folder of its programs"),
}
"""Servers that do not read the data of every version, by name and way out; the chain pins library and runtime."""
ANEW = "begin anew with FRESH=1, which removes them"


class RunStateError(UserError):
    """A pipeline's data cannot be used by this run; the message says why, where they are and what to do."""


@dataclass
class Mark:
    """What stands in a run's folder.

    Attributes:
        pipeline: whose it is.
        versions: component -> version that wrote there last.
        access_key: of the object store.
        secret_key: of the object store.
        password: of PostgreSQL.
        database: where PostgreSQL's data are, if elsewhere.
        removing: a run was asked to remove it: half of it may be gone.

    """

    pipeline: str
    versions: dict[str, str] = field(default_factory=dict)
    access_key: str = field(default_factory=lambda: secrets.token_hex(8))
    secret_key: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    password: str = field(default_factory=lambda: secrets.token_hex(20), repr=False)
    database: str | None = None
    removing: bool = False


class RunState:
    """A pipeline's folder, of a process that holds its lock (infra.embedded.run_lock)."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or made yet. The pipeline's name is that of the folder."""
        self.folder = folder
        self.mark = Mark(folder.name)

    def open(self, versions: Mapping[str, str], *, fresh: bool, say: Callable[[str], None]) -> bool:
        """Make the folder, or go on with the one that is there; return whether it is gone on with.

        `versions` are those of this run; `fresh` removes first what is there.

        Raises:
            RunStateError: it is not a run's, cannot be written, or was written by a server that this one does not
                follow.

        """
        try:
            found = self._find()
            if found is not None and (fresh or found.removing):
                self._remove(found, say)
                found = None
            if found is not None:
                _refuse_other(found, versions, self.folder)
                self.mark = found
            self.mark.versions |= versions
            self.folder.mkdir(exist_ok=True, mode=0o700)
            self._write()
        except OSError as error:
            raise RunStateError(f"the data of {self.folder.name} cannot be kept: {error}") from error
        return found is not None

    def find_database(self) -> Path:
        """Return PostgreSQL's folder: below this one, as root a shared one that its account may enter.

        Raises:
            RunStateError: it was there, and is gone.

        """
        if self.mark.database is None and os.geteuid() != 0:
            return self.folder / "postgres"
        if self.mark.database is None:
            made = make_shared_folder(LASTING)
            (made / MARK).write_text(json.dumps({"of": str(self.folder)}))
            self.mark.database = str(made)
            self._write()
        there = Path(self.mark.database)
        if not _is_of(there, self.folder):
            raise RunStateError(
                f"PostgreSQL's data of {self.folder.name} were in {there} and are gone, all others are in "
                f"{self.folder}; put them back, or {ANEW}"
            )
        return there

    def _find(self) -> Mark | None:
        """Return the mark of the folder; None where there is no folder, or an empty one."""
        try:
            mark = Mark(**json.loads((self.folder / MARK).read_text()))
        except FileNotFoundError:
            if not self.folder.exists() or not any(self.folder.iterdir()):
                return None
            raise self._refuse(f"it has no {MARK}") from None
        except (ValueError, TypeError) as error:
            raise self._refuse(f"its {MARK} cannot be read: {error}") from error
        if mark.pipeline != self.folder.name:
            raise self._refuse(f"it is of the pipeline {mark.pipeline}")
        return mark

    def _refuse(self, why: str) -> RunStateError:
        return RunStateError(
            f"{self.folder} is not what `make run` keeps of {self.folder.name}: {why}. It is neither used nor removed; "
            "move it away"
        )

    def _write(self) -> None:
        """Write the mark in one step, readable by its owner alone: keys are in it."""
        beside = self.folder.with_name(f"{self.folder.name}.mark")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(json.dumps(asdict(self.mark), indent=1) + "\n")
        beside.replace(self.folder / MARK)

    def _remove(self, found: Mark, say: Callable[[str], None]) -> None:
        """Remove everything, the mark last: where that is interrupted the next run takes it up."""
        paths = [path for path in self.folder.iterdir() if path.name != MARK]
        if found.database is not None and _is_of(Path(found.database), self.folder):
            paths.append(Path(found.database))
        size = sum(one.lstat().st_size for path in paths for one in (path, *path.rglob("*")) if one.is_file())
        names = ", ".join(map(str, sorted(paths))) or "nothing yet"
        say(
            f"… begins anew: removes the input, chain and sinks of {self.folder.name}, {size / 2**20:.1f} MiB ({names})"
        )
        began, self.mark = self.mark, found
        self.mark.removing = True
        self._write()
        for path in paths:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (self.folder / MARK).unlink()
        self.mark = began


def _is_of(database: Path, folder: Path) -> bool:
    """Whether a folder says that it is of that run's: no other is used, or removed."""
    try:
        return bool(json.loads((database / MARK).read_text())["of"] == str(folder))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _refuse_other(found: Mark, versions: Mapping[str, str], folder: Path) -> None:
    for name, (called, way_out) in COMPARED.items():
        then, now = found.versions.get(name), versions.get(name)
        if then is None or now is None:
            continue
        # A minor version goes both ways with PostgreSQL, and only upwards with Kafka.
        (before, *_), (after, *_) = _parts(then), _parts(now)
        if before != after or (name == "kafka" and _parts(then) > _parts(now)):
            raise RunStateError(
                f"the data of {found.pipeline} in {folder} were written by {called} {then}, and this is {now}, which "
                f"may not read them; {way_out}, or {ANEW}"
            )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
