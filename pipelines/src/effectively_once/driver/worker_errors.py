"""Named errors on their way back from Python workers: Spark hands the driver a text, which holds the name."""

from __future__ import annotations

import re

from effectively_once import errors

# Spark adds a state of its own to the line by which a stage was ended.
_LINE = re.compile(r"effectively_once\.errors\.(\w+): (.*?) \((.*?)\)\. (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


def name_error(error: BaseException) -> errors.PipelineError | None:
    """Return the PipelineError behind a failed job, None when it failed for another reason (a dead executor, a bug)."""
    if isinstance(error, errors.PipelineError):
        return error
    found = _LINE.search(str(error))
    if found is None:
        return None
    kind = getattr(errors, found[1], None)
    if not (isinstance(kind, type) and issubclass(kind, errors.PipelineError)):
        return None
    return kind(found[2], found[3], found[4])
