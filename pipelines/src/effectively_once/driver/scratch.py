"""The folders that Spark writes into beside its memory: a start tries each, before some task of some epoch does.

Shuffles, spilled rows, state and temporary files of Python go there.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from effectively_once.driver.shortage import MAKE_ROOM, MAKE_WRITABLE
from effectively_once.errors import ShortageError

VARIABLE: Final = "SPARK_LOCAL_DIRS"
"""Wins over the setting, as Spark has it; Kubernetes' operator sets it to the pod's volume."""
SETTING: Final = "spark.local.dir"
DEFAULT: Final = "/tmp"  # noqa: S108 - Java's own
TRIED: Final = bytes(1 << 20)
"""More than what an empty file takes: that a full disk may still give."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def try_scratch(conf: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
    """Write a temporary file of a megabyte into each folder of the driver.

    Args:
        conf: Spark's settings of the place.
        environment: of this process, which Spark's JVM inherits.

    Raises:
        ShortageError: naming the folder that takes none.

    """
    for folder in (environment.get(VARIABLE) or conf.get(SETTING) or DEFAULT).split(","):
        try:
            _write(Path(folder.strip()))
        except OSError as error:
            raise ShortageError(
                f"the driver cannot write where Spark keeps its temporary files: {error.strerror or error}",
                f"folder {folder.strip()}",
                MAKE_ROOM if error.errno in _FULL else MAKE_WRITABLE,
            ) from error


def _write(folder: Path) -> None:
    # Spark makes a folder that is not there.
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder, prefix="effectively-once-") as file:
        file.write(TRIED)
