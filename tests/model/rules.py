"""Which rules hold in an exploration, and what the pipeline is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.model.inputs import Rows

Kind = Literal["kafka", "table", "files"]
"""A shard of a Kafka sink, a shard of a PostgreSQL table, a sink on the object store."""


@dataclass(frozen=True, slots=True)
class Rules:
    """All hold in the product; each is left out once, in the way a plausible implementation would leave it out."""

    r1_conditional_head: bool = True
    r3_declare_before_publish: bool = True
    r3_repeat_the_declared: bool = True
    r4_output_recorded: bool = True
    r4_output_once: bool = True
    r4_digests_compared: bool = True
    r5_delta_once: bool = True
    r8_mark_decides: bool = True
    r8_mark_after_unknown: bool = True
    r8_kept_for_next_only: bool = True
    r8_hanging_before_mark: bool = True
    r8_hanging_before_kept: bool = True
    r8_owner_goes_on: bool = True
    r8_row_by_epoch: bool = True
    r8_row_by_generation: bool = True
    r8_row_raised_on_open: bool = True
    r8_manifest_once: bool = True
    r8_file_before_manifest: bool = True
    r8_files_of_their_own: bool = True
    r9_floor_before_deletion: bool = True
    r9_parts_until_recorded: bool = True
    r9_missing_refused: bool = True
    r9_floor_of_every_length: bool = True
    r9_output_until_recorded: bool = True
    r10_marks_within: bool = True
    r13_whole_input: bool = True
    r13_of_every_task: bool = True
    r13_whole_partials: bool = True

    def proves_records(self, rows: Rows) -> bool:
        """Whether the first step may decide on what it read."""
        if not self.r13_whole_input:
            return True
        return rows.whole if self.r13_of_every_task else rows.begun

    def proves_partials(self, rows: Rows) -> bool:
        """Whether the second step may."""
        return rows.whole or not self.r13_whole_partials


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is run.

    Attributes:
        to: where an epoch is published, in order; a record goes to one of them, by its id.
        input: ids of the records in order, with their event times.
        rows: how many of them driver A reads an epoch, and driver B.
        recorded: a step that is not deterministic adds a value to each row.
        kept: producers and sessions are kept between epochs.
        fan: so many deltas are merged; 0 merges none.
        results: the last of `to` gets what a second step makes of partials of the others.
        length, lateness: of the windows by which records are late and ids forgotten.
        long: of windows whose results the second step publishes when they close; 0: it publishes in each epoch all that
            it reads.

    """

    to: tuple[Kind, ...]
    input: tuple[tuple[str, int], ...] = (("a", 0), ("b", 0), ("c", 0), ("a", 0), ("d", 0))
    rows: tuple[int, int] = (2, 3)
    recorded: bool = True
    kept: bool = True
    fan: int = 0
    results: bool = False
    length: int = 1
    lateness: int = 1
    long: int = 0

    @property
    def first(self) -> int:
        """How many of `to` the first step publishes to."""
        return len(self.to) - self.results

    def shard(self, identity: str) -> int:
        """Shard of an id in the first step."""
        return ord(identity) % self.first
