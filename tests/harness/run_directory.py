"""Typed access to the files of one run directory (docs/reference/run-directory.md)."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from tests.harness.evidence import Chain, Epilogue, EvidenceError, Manifest, Pin, Quiet, RowCountError, pin_of
from tests.harness.history import History, read_history
from tests.harness.sends import Send, send_of

_Model = TypeVar("_Model", bound=BaseModel)
SHOWN = "shown"
_TODO = "take the file again from where the run was recorded, or run again"


class LinesWriter:
    """Writes a file of JSON lines that ends with `{"end": true, "rows": N}`.

    Used as a context manager. When the block raises, the end line is left out: the file then says itself that it
    is truncated. Threads may share a writer.

    Args:
        path: the file, created or replaced; its folder is created.

    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.rows = 0
        self._lock = threading.Lock()
        self._file = path.open("wb", buffering=1 << 20)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        with self._lock:
            self._file.write(line)
            self.rows += 1

    def flush(self) -> None:
        """Hand over to the operating system what was written so far."""
        with self._lock:
            self._file.flush()

    def close(self, *, complete: bool = True) -> None:
        """Write the end line (unless not `complete`), sync and close; closing twice is allowed."""
        with self._lock:
            if self._file.closed:
                return
            if complete:
                self._file.write(orjson.dumps({"end": True, "rows": self.rows}, option=orjson.OPT_APPEND_NEWLINE))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Self:
        """Use the writer in a block that ends the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, complete unless the block raised."""
        self.close(complete=error is None)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file that `LinesWriter` wrote, one at a time, without the end line.

    Raises:
        EvidenceError: the file is missing, a line is not a JSON object, or the end line is missing.
        RowCountError: after the last row, when the end line says another number.

    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise EvidenceError(f"evidence cannot be read ({error.strerror})", path, _TODO) from error
    with file:
        rows, end = 0, None
        for number, line in enumerate(file, start=1):
            if end is not None:
                raise EvidenceError("a line stands after the end line", f"{path}:{number}", _TODO)
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise EvidenceError(f"line is not JSON ({error})", f"{path}:{number}", _TODO) from error
            if not isinstance(row, dict):
                raise EvidenceError("line is not a JSON object", f"{path}:{number}", _TODO)
            if row.get("end") is True:
                end = row.get("rows")
                if type(end) is not int:
                    raise EvidenceError("the end line names no number of rows", f"{path}:{number}", _TODO)
                continue
            rows += 1
            yield row
    if end is None:
        raise EvidenceError(f"file is truncated: no end line after {rows} rows", path, _TODO)
    if end != rows:
        raise RowCountError(f"{rows} rows, but the end line says {end}", path, _TODO)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_bytes(content)
    temporary.replace(path)


class RunDirectory:
    """The files of one run, by name.

    Args:
        path: the folder `runs/<run id>` (or that of a control).

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest_path = path / "manifest.json"
        self.sent_path = path / "sent.jsonl"
        self.statements_path = path / "statements.jsonl"
        self.history_path = path / "history.jsonl"
        self.observed = path / "observed"
        self.chain_path = self.observed / "chain.json"
        self.quiet_path = self.observed / "quiet.json"
        self.epilogue_path = self.observed / "epilogue.json"
        self.logs = path / "logs"
        self.results_path = path / "results.json"
        self.junit_path = path / "junit.xml"
        self.report_path = path / "report.html"

    def observed_path(self, sink: str) -> Path:
        """Return the file of a sink's records."""
        return self.observed / f"{sink}.jsonl"

    def concurrent_path(self, sink: str) -> Path:
        """Return the file of what the concurrent reader saw of a sink."""
        return self.observed / f"{sink}.concurrent.jsonl"

    def control(self, name: str) -> RunDirectory:
        """Return the run directory of a negative control, or of the baseline, that belongs to this run."""
        return RunDirectory(self.path / "controls" / name)

    def keep_trace(self) -> Path:
        """Write the exception that is being handled, with where it came from, to the logs; where it is."""
        trace = self.logs / "error.txt"
        trace.parent.mkdir(parents=True, exist_ok=True)
        trace.write_text(traceback.format_exc())
        return trace

    def manifest(self) -> Manifest:
        """Read `manifest.json`; raises EvidenceError."""
        return _read_model(self.manifest_path, Manifest)

    def manifest_of(self, kind: type[_Model], todo: str) -> _Model:
        """Read the `manifest.json` of a run that is judged by its own judge.

        Args:
            kind: what it has to be.
            todo: what the reader of a message can do.

        Raises:
            EvidenceError: it is missing, or none of that kind.
        """
        path = self.manifest_path
        try:
            return kind.model_validate_json(path.read_bytes())
        except OSError as error:
            raise EvidenceError(f"evidence cannot be read ({error.strerror})", path, todo) from error
        except ValidationError as error:
            raise EvidenceError(f"no manifest: {error.errors()[0]['msg']}", path, todo) from error

    def chain(self) -> Chain:
        """Read `observed/chain.json`; raises EvidenceError."""
        return _read_model(self.chain_path, Chain)

    def quiet(self) -> Quiet:
        """Read `observed/quiet.json`; raises EvidenceError."""
        return _read_model(self.quiet_path, Quiet)

    def epilogue(self) -> Epilogue:
        """Read `observed/epilogue.json`; raises EvidenceError."""
        return _read_model(self.epilogue_path, Epilogue)

    def events(self) -> list[dict[str, Any]]:
        """Read every event of the history; raises EvidenceError."""
        return read_history(self.history_path)

    def whole_events(self) -> list[dict[str, Any]]:
        """Read a history that came to its end (`History.end`), the end included.

        Raises:
            EvidenceError: it cannot be read, or lines of it are missing.

        """
        events = self.events()
        last = events[-1]
        if (last["event"], last.get("phase")) != ("phase", "judge") or last.get("lines") != len(events) - 1:
            raise EvidenceError("the history does not come to its end", self.history_path, _TODO)
        return events

    def sends(self) -> list[Send]:
        """Read every acknowledged send, in the order of the file.

        Raises:
            EvidenceError: the file is missing, truncated, or a row contradicts itself.

        """
        sends: list[Send] = []
        for row in read_lines(self.sent_path):
            try:
                sends.append(send_of(row))
            except ValueError as error:
                raise EvidenceError(
                    f"ground truth is damaged ({error})", f"{self.sent_path}:{len(sends) + 1}", _TODO
                ) from error
        return sends

    def shown(self) -> list[Pin]:
        """Read which rows epochs show that were finished as they are shown; raises EvidenceError."""
        pins: list[Pin] = []
        for row in read_lines(path := self.observed_path(SHOWN)):
            try:
                pins.append(pin_of(row))
            except (KeyError, TypeError, ValueError) as error:
                raise EvidenceError(f"no row that is shown ({error!r})", f"{path}:{len(pins) + 1}", _TODO) from error
        return pins

    def rows(self, sink: str) -> Iterator[dict[str, Any]]:
        """Yield the records observed in a sink, one at a time; raises as `read_lines` does."""
        return read_lines(self.observed_path(sink))

    def concurrent_rows(self, sink: str) -> Iterator[dict[str, Any]]:
        """Yield what the concurrent reader saw of a sink, in its order; raises as `read_lines` does."""
        return read_lines(self.concurrent_path(sink))

    def history(self) -> History:
        """Open a writer that appends to the history."""
        return History(self.history_path)

    def sent_writer(self) -> LinesWriter:
        """Open a writer for `sent.jsonl`."""
        return LinesWriter(self.sent_path)

    def statements_writer(self) -> LinesWriter:
        """Open a writer for `statements.jsonl`."""
        return LinesWriter(self.statements_path)

    def observed_writer(self, sink: str) -> LinesWriter:
        """Open a writer for the records of a sink."""
        return LinesWriter(self.observed_path(sink))

    def concurrent_writer(self, sink: str) -> LinesWriter:
        """Open a writer for what the concurrent reader sees of a sink."""
        return LinesWriter(self.concurrent_path(sink))

    def write_json(self, path: Path, value: Any) -> None:
        """Write a JSON document of this run in one step; `value` is a pydantic model or a JSON value."""
        document = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
        write_atomically(path, orjson.dumps(document, option=options))


def _read_model(path: Path, model: type[_Model]) -> _Model:
    try:
        return model.model_validate(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise EvidenceError(f"evidence cannot be read ({error.strerror})", path, _TODO) from error
    except orjson.JSONDecodeError as error:
        raise EvidenceError(f"file is not JSON ({error})", path, _TODO) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(f"field {field or 'of the document'}: {first['msg']}", path, _TODO) from error


def new_run(runs_dir: Path, seed: int) -> Path:
    """Create `<runs_dir>/<UTC time>-<seed>`, or with `-2`, `-3`, ... when another run took the name.

    The folder is made exclusively, so that two demos started in one second get two folders.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{seed}"
    for attempt in count(1):
        run = runs_dir / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            run.mkdir()
        except FileExistsError:
            continue
        return run
    raise AssertionError("unreachable: counting does not end")


def point_latest(run: Path) -> None:
    """Let the link `latest` beside `run` point at it, replaced in one step.

    Raises:
        ValueError: `run` is that of a negative control; those never become the latest run.

    """
    if run.parent.name == "controls":
        raise ValueError(f"a negative control is not a run: {run}; point at the run that holds it")
    temporary = run.parent / f".latest.{os.getpid()}.{threading.get_ident()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(run.name, target_is_directory=True)
    temporary.replace(run.parent / "latest")
