"""What makes a backup complete: its head and the digests of its objects, written last."""

from __future__ import annotations

import hashlib
import json

from pydantic import ValidationError

from effectively_once.errors import PipelineError
from effectively_once.ledger.objects import body_of, run
from effectively_once.ledger.record import Record, Versioned
from effectively_once.operate.backup.location import BackupLocation

FORMAT = 1
MANIFEST = "backup.json"


class BackupError(PipelineError):
    """A backup is incomplete, damaged, or does not fit the place it is written to or restored to."""

    exit_code = 73


class Copied(Record):
    """An object of a backup."""

    bytes: int
    sha256: str


class BackupManifest(Record):
    """What makes a backup complete.

    Attributes:
        taken_ms: when its head was read, milliseconds since 1970.
        head: the content of head.json.
        objects: by name below the pipeline's prefix.
        digest: of all of the above.

    """

    format: int = FORMAT
    pipeline: str
    taken_ms: int
    head: str
    objects: dict[str, Copied]
    digest: str = ""

    def add_digest(self) -> BackupManifest:
        """Return it with the digest that its content has."""
        content = self.model_dump(exclude={"digest"})
        found = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return self.model_copy(update={"digest": found})


def manifest_of(place: BackupLocation) -> BackupManifest:
    """Read what makes a backup complete.

    Raises:
        BackupError: there is no manifest, or it is damaged or of a newer format.

    """
    body = run(body_of(MANIFEST), place)
    where = f"{place}, {MANIFEST}"
    if body is None:
        raise BackupError("the backup has no manifest: it is incomplete", where, "Use another backup.")
    try:
        version = Versioned.model_validate_json(body).format
        if version != FORMAT:
            raise BackupError(f"the backup has format {version}, this is {FORMAT}", where, "Use a newer version.")
        manifest = BackupManifest.model_validate_json(body)
    except ValidationError as wrong:
        what = f"the manifest of the backup cannot be read: {wrong.errors()[0]['msg']}"
        raise BackupError(what, where, "Use another backup.") from wrong
    if manifest != manifest.add_digest():
        raise BackupError("the manifest of the backup is damaged", where, "Use another backup.")
    return manifest


def object_of(place: BackupLocation, manifest: BackupManifest, name: str) -> bytes:
    """Read an object of a backup. Raises BackupError when it is missing or is not what was copied."""
    body = run(body_of(name), place)
    if body is None:
        raise BackupError("an object of the backup is missing", f"{place}, {name}", "Use another backup.")
    if hashlib.sha256(body).hexdigest() != manifest.objects[name].sha256:
        raise BackupError("an object of the backup is damaged", f"{place}, {name}", "Use another backup.")
    return body
