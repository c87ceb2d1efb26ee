"""A series of backups below one place: each in a folder named after when it was begun, of which the newest stay."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from effectively_once.ledger.objects import Delete
from effectively_once.operate.backup.backup_manifest import MANIFEST, BackupError, BackupManifest, manifest_of
from effectively_once.operate.backup.location import BackupLocation

FORM = "%Y%m%dT%H%M%SZ"
_FOLDER = re.compile(r"\d{8}T\d{6}Z")


@dataclass(frozen=True, slots=True)
class Series:
    """Backups of one pipeline, one after the other.

    Attributes:
        place: below which they lie. Folders of other names are nobody's business here.
        pipeline: whose they are.
        say: is told what is deleted.
        unpin: is told of each complete one that is deleted when it was taken, in milliseconds since 1970.

    """

    place: BackupLocation
    pipeline: str
    say: Callable[[str], object]
    unpin: Callable[[int], object] = lambda _: None

    def begin(self, now: datetime) -> BackupLocation:
        """Return the place of the next backup. Raises BackupError where another pipeline has its own."""
        for folder in sorted(self._names(), reverse=True):
            if (other := self._manifest(folder)) is not None:
                if other.pipeline != self.pipeline:
                    raise BackupError(
                        f"backups of pipeline {other.pipeline!r} are there",
                        f"{self.place}, {folder}",
                        "Name another place.",
                    )
                break
        return self.place.below(now.astimezone(UTC).strftime(FORM))

    def prune(self, keep: int) -> None:
        """Delete what is older than the newest complete backups, of which `keep` stay; broken off ones in between too.

        With fewer complete ones nothing is deleted: what broke off may be all there is.
        """
        names = self._names()
        # The newest first. A manifest names every object of its backup: it is read once, and not kept.
        taken_ms = {folder: one.taken_ms for folder in sorted(names, reverse=True) if (one := self._manifest(folder))}
        if len(taken_ms) < keep:
            return
        last = [*taken_ms][keep - 1]
        for folder in sorted(folder for folder in names if folder < last):
            if folder in taken_ms:
                self.unpin(taken_ms[folder])
            # First what makes it complete: nobody restores from the rest.
            for name in sorted(names[folder], key=lambda name: name != MANIFEST):
                self.place.below(folder).answer(Delete(name))
            self.say(f"deleted: {self.place.below(folder)}, {len(names[folder]):,} objects")

    def _names(self) -> dict[str, list[str]]:
        """Names of objects by the folder that they are in."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in self.place.names():
            folder, _, rest = name.partition("/")
            if rest and _FOLDER.fullmatch(folder):
                found[folder].append(rest)
        return found

    def _manifest(self, folder: str) -> BackupManifest | None:
        """Return what makes a backup complete, None where it is not."""
        try:
            return manifest_of(self.place.below(folder))
        except BackupError:
            return None
