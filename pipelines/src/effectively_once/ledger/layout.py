"""Names of the objects of a pipeline below its prefix in the bucket."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Object names; `pipeline` is the identity that drivers fence each other by."""

    pipeline: str

    @property
    def head(self) -> str:
        """The chain's head."""
        return f"{self.pipeline}/head.json"

    def segment(self, first: int, last: int) -> str:
        """Epoch records that left the head."""
        return f"{self.pipeline}/segments/{first:09d}-{last:09d}.json"

    def delta(self, kind: str, epoch: int, shard: int, anew: int | None = None) -> str:
        """Name what an epoch adds to the state of a shard (R5); `anew` as of `Declaration.decides`."""
        return f"{self.pipeline}/deltas/{kind}/{shard:04d}/{_epoch_name(epoch, anew)}.arrow"

    def span(self, kind: str, first: int, last: int, shard: int) -> str:
        """Name the deltas of epochs `first` to `last` of a shard, merged (R9)."""
        return f"{self.pipeline}/deltas/{kind}/{shard:04d}/{first:09d}-{last:09d}.arrow"

    def step_record(self, step: str, epoch: int, shard: int, anew: int | None = None) -> str:
        """Name what a non-deterministic step gave in an epoch, for a shard (R4); `anew` as of `Declaration.decides`."""
        return f"{self.pipeline}/recorded/{step}/{shard:04d}/{_epoch_name(epoch, anew)}.arrow"

    def shown_rows(self, epoch: int, shard: int, generation: int) -> str:
        """Name the coordinates of the rows that a shard shows of an epoch which no repeat could finish (R10)."""
        return f"{self.pipeline}/shown/{shard:04d}/{epoch:09d}-{generation:06d}.arrow"

    @property
    def control(self) -> str:
        """What an operator asks of the drivers; not part of the chain."""
        return f"{self.pipeline}/control.json"

    @property
    def lease(self) -> str:
        """The active driver's sign of life; not part of the chain."""
        return f"{self.pipeline}/lease.json"

    @property
    def standby(self) -> str:
        """That of a driver which waits to take over."""
        return f"{self.pipeline}/standby.json"

    def manifest(self, sink: str, epoch: int) -> str:
        """Name what an epoch published to an object-store sink."""
        return f"{self.pipeline}/{sink}/manifests/{epoch:09d}.json"

    def manifests(self, sink: str, first: int, last: int) -> str:
        """Name what epochs `first` to `last` published to an object-store sink, in one object (R9)."""
        return f"{self.pipeline}/{sink}/manifests/{first:09d}-{last:09d}.json"

    def staged_file(self, sink: str, epoch: int, unique: str) -> str:
        """Name a file of a sink; nobody reads it before a manifest names it."""
        return f"{self.pipeline}/{sink}/data/{epoch:09d}-{unique}.parquet"

    def letter(self, epoch: int, sha256: str) -> str:
        """Name a record that an epoch refused and that no dead letter holds: by its content, so repeats name it alike.

        No sink has this folder, as none may have the name of the dead letters.
        """
        return f"{self.letters}{epoch:09d}-{sha256}"

    @property
    def letters(self) -> str:
        """Where all of these are."""
        return f"{self.pipeline}/dead_letter/records/"

    def checkpoint(self, lineage: str) -> str:
        """Spark's checkpoint folder of one lineage."""
        return f"{self.pipeline}/checkpoints/{lineage}"

    @property
    def left_by_a_chain(self) -> tuple[str, ...]:
        """Folders in which nothing is before head."""
        return tuple(f"{self.pipeline}/{folder}/" for folder in ("checkpoints", "deltas", "segments"))

    def probe(self, unique: str) -> str:
        """Name the object on which a start tries the store; it is deleted again."""
        return f"{self.pipeline}/probe/{unique}"


def _epoch_name(epoch: int, anew: int | None) -> str:
    return f"{epoch:09d}" if anew is None else f"{epoch:09d}-r{anew:06d}"
