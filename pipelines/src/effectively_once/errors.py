"""The named ways in which a pipeline stops.

Every message says what happened, where, and what to do: the driver prints exactly that line and exits with the code.
"""

from __future__ import annotations


class PipelineError(Exception):
    """A condition that stops the pipeline and that an operator can act on.

    Args:
        what: what happened, in words of the domain.
        where: the object, topic, file or setting it was found at.
        todo: what to do about it.

    """

    exit_code = 1
    passing = False
    """Whether a repeat of the epoch may end otherwise."""

    def __init__(self, what: str, where: str, todo: str) -> None:
        # Texts of clients may have several lines; an operator, and the way back from a worker, get one.
        what, where, todo = (" ".join(text.splitlines()) for text in (what, where, todo))
        super().__init__(f"{what} ({where}). {todo}")
        self.what, self.where, self.todo = what, where, todo

    def __reduce__(self) -> tuple[type[PipelineError], tuple[str, str, str]]:
        """Survive the way from a Python worker to the driver."""
        return type(self), (self.what, self.where, self.todo)


class SettingsError(PipelineError):
    """A setting is unknown, of the wrong type, or impossible together with another."""

    exit_code = 64


class ShortageError(PipelineError):
    """The machine or pod of a driver or an executor has no disk or memory left for it."""

    exit_code = 68


class UnreachableError(PipelineError):
    """The broker or the object store does not answer."""

    exit_code = 69


class StoreError(PipelineError):
    """The object store does not keep what the chain rests on: conditions, ETags, or what it acknowledged."""

    exit_code = 67


class AccessError(PipelineError):
    """Wrong credentials, or no permission, or the bucket does not exist."""

    exit_code = 77


class StaleDriverError(PipelineError):
    """Another driver took the pipeline over (R1): this one must stop, and must not be restarted blindly."""

    exit_code = 75


class ChainError(PipelineError):
    """The offsets of a batch neither repeat nor adjoin the chain (R3), or the chain itself is damaged."""

    exit_code = 76


class SinkError(PipelineError):
    """A sink's progress mark contradicts the chain (R10), or what is published twice differs (R4)."""

    exit_code = 76


class RefusedRowsError(SinkError):
    """A sink refuses rows for what they are. Spark repeats no task for it, as `RefusedRows.java` knows its name."""


class SourceError(PipelineError):
    """The input topic is missing, compacted, or was deleted and recreated (R3)."""

    exit_code = 65


class InputError(PipelineError):
    """A shard did not get its whole input (R13): the epoch is repeated, and nothing of the attempt is there."""

    exit_code = 66
    passing = True


class EndedTaskError(PipelineError):
    """The task was killed or failed while its Python worker went on (R13): the worker shows nothing any more."""

    exit_code = 66
    passing = True


class StepError(PipelineError):
    """The function of a recorded step raised, or gave something else than the step declares (R4)."""

    exit_code = 71


class CheckpointError(PipelineError):
    """An object of Spark's checkpoint cannot be read."""

    exit_code = 74


class VersionError(PipelineError):
    """Another version of the pipeline declared the epoch that has to be finished (R3)."""

    exit_code = 78


class ControlError(PipelineError):
    """What an operator asks for cannot be read, was asked otherwise meanwhile, or did not come about in time."""

    exit_code = 72


def one_line(error: BaseException) -> str:
    """Say what an operator is told: the named error's own line, else the first line of whatever happened."""
    if isinstance(error, PipelineError):
        return f"{type(error).__name__}: {error}"
    return f"the query failed: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"
