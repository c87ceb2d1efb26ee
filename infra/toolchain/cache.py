"""The artefact cache: what was built once is found again by what it was built from.

It lies outside the checkout, so a fresh clone re-uses it. Standard library only, and readable by old Pythons:
the bootstrap imports it before anything is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

COMPLETE = ".complete"


def cache_root(env: Mapping[str, str] | None = None) -> Path:
    """Where artefacts are kept: EFFECTIVELY_ONCE_CACHE, else below XDG_CACHE_HOME, else below ~/.cache."""
    env = os.environ if env is None else env
    own = env.get("EFFECTIVELY_ONCE_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    xdg = env.get("XDG_CACHE_HOME")
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "effectively-once"


def digest(parts: Mapping[str, str | bytes]) -> str:
    """SHA-256 (hex) over named inputs. Names and lengths are part of it, so moved bytes give another digest."""
    sha = hashlib.sha256()
    for name in sorted(parts):
        value = parts[name]
        raw = value.encode() if isinstance(value, str) else value
        sha.update(b"%d:%s=%d:" % (len(name.encode()), name.encode(), len(raw)))
        sha.update(raw)
    return sha.hexdigest()


@contextlib.contextmanager
def file_lock(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold `path` against every other process; `waiting` is called once if somebody else holds it.

    The kernel drops the lock with the process, however that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Closing alone would not release it while a process forked meanwhile has the file open.
            fcntl.flock(handle, fcntl.LOCK_UN)


class Cache:
    """Artefacts below `root`, each a directory `<name>-<first 16 digits of its key>` holding a marker when complete."""

    def __init__(self, root: Path, waiting: Callable[[str], None] = lambda _: None) -> None:
        """Keep artefacts below `root`; `waiting` is told the name of what another process is building."""
        self.root = root
        self._waiting = waiting

    def path(self, name: str, key: str) -> Path:
        """Where the artefact of that name and key is, or would be."""
        return self.root / f"{name}-{key[:16]}"

    def has(self, name: str, key: str) -> bool:
        """Whether the artefact was built to its end."""
        return (self.path(name, key) / COMPLETE).is_file()

    def forget(self, name: str, key: str) -> None:
        """Believe the artefact incomplete, so that the next `get` builds it anew."""
        (self.path(name, key) / COMPLETE).unlink(missing_ok=True)

    def get(self, name: str, key: str, build: Callable[[Path], None], *, in_place: bool = False) -> Path:
        """Return the artefact's directory, built by `build(directory)` if it is not there.

        The build works in a directory beside the final one, renamed when it is complete; of several builders one
        builds and the others wait for it. With `in_place` it works at the final path (for what cannot be moved, like
        a virtual environment) and only the marker tells that it is complete. What an interrupted build left is
        removed by the next one.
        """
        final = self.path(name, key)
        if self.has(name, key):
            return final
        lock = self.root / "locks" / f"{final.name}.lock"
        with file_lock(lock, lambda: self._waiting(name)):
            if self.has(name, key):
                return final
            for left in [final, *self.root.glob(f"{final.name}.tmp-*")]:
                shutil.rmtree(left, ignore_errors=True)
            work = final if in_place else self.root / f"{final.name}.tmp-{os.getpid()}"
            work.mkdir(parents=True)
            try:
                build(work)
                (work / COMPLETE).write_text(key + "\n")
                if not in_place:
                    work.rename(final)
            except BaseException:
                shutil.rmtree(work, ignore_errors=True)
                raise
        return final
