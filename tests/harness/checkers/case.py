"""What the oracles of one run judge: its evidence, each piece read when first needed and then kept."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.harness.checkers.backlog import Backlog, end_of_workload, first_publications
from tests.harness.checkers.reference import Outcome, Reference, replay
from tests.harness.evidence import SINKS, Chain, Epilogue, EvidenceError, Manifest, Pin, Quiet
from tests.harness.results import Oracle, Verdict
from tests.harness.run_directory import SHOWN, RunDirectory
from tests.harness.schemas import USER_COUNTS, WITH_TABLE, SinkSchema
from tests.harness.sends import Send
from tests.harness.sinks import ACCEPTED_ROWS

FIRST = 10
KEPT_BYTES = 1 << 28
"""Of a file whose rows are kept once they were read: they take some three times as much."""
UNSEEN = "recorded before messages were looked at whole: there are no schemas of its sinks"


class Case:
    """The evidence of one run. Every attribute raises EvidenceError when its file cannot be believed.

    Args:
        run: the run directory.

    """

    def __init__(self, run: RunDirectory | Path) -> None:
        self.run = RunDirectory(run) if isinstance(run, Path) else run
        self._rows: dict[str, tuple[list[dict[str, Any]], EvidenceError | None]] = {}

    def rows(self, sink: str) -> Iterator[dict[str, Any]]:
        """Yield the records observed in a sink; raises as `read_lines` does, behind the last that could be read.

        Several oracles look at each of them, and reading takes longer than most looks do: unless they are too many
        for the memory they are kept, and are nobody's to change.
        """
        path = self.run.observed_path(sink)
        if path.exists() and path.stat().st_size > KEPT_BYTES:
            yield from self.run.rows(sink)
            return
        if sink not in self._rows:
            self._rows[sink] = _read(self.run.rows(sink))
        rows, error = self._rows[sink]
        yield from rows
        if error is not None:
            raise error

    @cached_property
    def manifest(self) -> Manifest:
        """Settings and plan of the run."""
        return self.run.manifest()

    @cached_property
    def sends(self) -> list[Send]:
        """The ground truth."""
        return self.run.sends()

    @cached_property
    def chain(self) -> Chain:
        """Head and epoch records."""
        return self.run.chain()

    @cached_property
    def shown(self) -> list[Pin]:
        """Rows of epochs that were finished as they are shown."""
        finished = [one for one in self.chain.pinned if one.is_finished_as_shown]
        if any(pinned.ids for one in finished for pinned in one.shown.values()):
            # Where no sink tells what it shows; no pipeline that this harness has repaired is one.
            raise EvidenceError("rows that are shown have no places", self.run.chain_path, "judge them by hand")
        return self.run.shown() if finished or self.run.observed_path(SHOWN).exists() else []

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The history."""
        return self.run.events()

    @cached_property
    def quiet(self) -> Quiet:
        """Ends of the output partitions."""
        return self.run.quiet()

    @cached_property
    def epilogue(self) -> Epilogue:
        """Boundary and steps of the epilogue."""
        return self.run.epilogue()

    @cached_property
    def reference(self) -> Reference:
        """What every output must be."""
        settings = self.manifest.settings
        return replay(self.sends, self.chain.pinned, settings.window_ms, settings.lateness_ms, self.shown)

    @property
    def lost(self) -> int:
        """Acknowledged records that the chain gave up."""
        return self.reference.outcomes.count(Outcome.LOST)

    @cached_property
    def sent_at(self) -> array[int]:
        """When each send was handed to the producer, in ms since 1970, in the order of `sends`."""
        return self._times("sent_at", "a send does not say when")

    @cached_property
    def acked_at(self) -> array[int]:
        """When each was acknowledged, of a sender that tells it: one that waits for nobody."""
        times = self._times("acked_at", "a send does not say when it was acknowledged")
        if (early := next((at for at, sent in enumerate(self.sent_at) if times[at] < sent), None)) is not None:
            where = f"{self.run.sent_path}:{early + 1}"
            raise EvidenceError("a send was acknowledged before it was sent", where, "judge an unaltered run")
        return times

    def _times(self, name: str, lacks: str) -> array[int]:
        times = array("q")
        for send in self.sends:
            if type(at := getattr(send, name)) is not int:
                raise EvidenceError(lacks, f"{self.run.sent_path}:{len(times) + 1}", "run again")
            times.append(at)
        return times

    @cached_property
    def backlog(self) -> Backlog:
        """Records of the workload that waited to be published; the epilogue's copies are none."""
        events, epochs_of = self.events, self.reference.epochs_of
        workload = [at for at, send in enumerate(self.sends) if send.kind != "resent"]
        return Backlog(
            [self.sent_at[at] for at in workload],
            [epochs_of[at] for at in workload],
            first_publications(events),
            end_of_workload(events),
        )

    @property
    def schemas(self) -> Mapping[str, SinkSchema]:
        """What every row of each sink must be, as the run says and the definition of its job does too."""
        told, due = self.manifest.schemas, WITH_TABLE if ACCEPTED_ROWS in self.sinks else USER_COUNTS
        if not told:
            raise EvidenceError(UNSEEN, self.run.manifest_path, "run again")
        if told != due:
            raise EvidenceError(
                "schemas are not those of the job's definition", self.run.manifest_path, "judge an unaltered run"
            )
        return due

    def hidden(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Columns of a row that its message does not show: of `user_counts` it shows all."""
        return {}

    @property
    def sinks(self) -> tuple[str, ...]:
        """The sinks to judge: those of the manifest, which must name all that the run's kind has."""
        sinks = self.manifest.settings.sinks
        due = ("accepted",) if self.manifest.control else SINKS
        if set(sinks) - ({ACCEPTED_ROWS} if due == SINKS else set()) != set(due):
            raise EvidenceError(
                f"settings.sinks is {list(sinks)}, due are {list(due)}",
                self.run.manifest_path,
                "judge an unaltered run",
            )
        return sinks

    @property
    def watched(self) -> tuple[str, ...]:
        """Those of them that the concurrent reader reads: no tables."""
        return tuple(sink for sink in self.sinks if sink != ACCEPTED_ROWS)


def _read(rows: Iterator[dict[str, Any]]) -> tuple[list[dict[str, Any]], EvidenceError | None]:
    """Return the rows up to what ends them, and that; None: their end."""
    found: list[dict[str, Any]] = []
    try:
        for row in rows:
            found.append(row)
    except EvidenceError as error:
        return found, error
    return found, None


def coordinate_text(coordinate: tuple[str, int, int]) -> str:
    """Write a source coordinate for people: topic/partition@offset."""
    topic, partition, offset = coordinate
    return f"{topic}/{partition}@{offset}"


def source_of(send: Send) -> str:
    """Write the source coordinate of a send for people."""
    return coordinate_text(send.coordinate)


def place_of(sink: str, row: dict[str, Any]) -> str:
    """Where an observed record stands, for people."""
    at = row["object"] if row.get("object") is not None else f"{sink}/{row.get('partition')}@{row.get('offset')}"
    return f"{at}, epoch {row.get('epoch')}"


def refute(name: str, number: int, says: str, *groups: Sequence[str], verdict: Verdict = Verdict.FAIL) -> Oracle:
    """What an oracle or a guard finds that has complaints; of each group the first are its evidence."""
    evidence = tuple(line for group in groups for line in clip(list(group[:FIRST]), len(group)))
    return Oracle(name=name, number=number, verdict=verdict, says=says, evidence=evidence)


def clip(evidence: list[str], total: int) -> tuple[str, ...]:
    """Return the first pieces of evidence, and how many more there are."""
    more = total - len(evidence)
    return (*evidence, f"... and {more} more") if more > 0 else tuple(evidence)
