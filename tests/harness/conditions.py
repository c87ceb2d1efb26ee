"""Under which conditions a campaign's pipeline runs: lengths of faults, time-outs, sizes of records, its proof."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from tests.harness import cut_sorts, lag_sorts, stall_sorts
from tests.harness.spread import BLOCKS, NETWORK_S, SHORT_PIPES, heartbeats

HOLD_MAX_MS = 600_000
"""The product's own."""
LONGEST_S = 150.0
"""The harness gives up a store that does not answer for 180 s."""
Length = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]


class Conditions(BaseModel):
    """What a command line or a part of a soak sets beside seed, faults and records.

    Attributes:
        stall_s: lengths of stalls, of which each comes once before one comes twice; likewise of slow disks.
        cut_s: likewise of cuts.
        network_s: Spark's time-out of heartbeats.
        payload_bytes: of each record, at least.
        short_pipes: Spark hands rows to Python by pipes that hold little, so that streams end in the middle; in pods
            a pipeline has four executors then, as it has embedded.
        unproven: the pipeline goes without proof that a shard's input is whole (R13). Then the run has to fail.
        rate: records/s that are sent whatever the pipeline does; None: the chain holds the sender back.
        idle_ms: the pipeline's time goes by partition, and one that was silent for so long is not waited for.
        skew: the first partition gets so many times the records of each other one.
        lag_s: likewise of drivers and gateways that are away and partitions that lag, of an unpaced sender.
        hold_max_ms: so long windows wait for a gateway that says nothing; only where one is away.
        repair: but for the way out, which is taken once drivers were refused: `effectively-once repair`, and drivers
            with proof from then on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stall_s: tuple[Length, ...] = Field(default=stall_sorts.LENGTHS_S, min_length=1)
    cut_s: tuple[Length, ...] = Field(default=cut_sorts.LENGTHS_S, min_length=1)
    network_s: float = Field(default=NETWORK_S, ge=1, le=LONGEST_S)
    payload_bytes: int = Field(default=0, ge=0, le=1 << 19)
    short_pipes: bool = False
    unproven: bool = False
    repair: bool = False
    rate: float | None = Field(default=None, gt=0, le=100_000, allow_inf_nan=False)
    idle_ms: int | None = Field(default=None, ge=1)
    skew: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    lag_s: tuple[Length, ...] = Field(default=lag_sorts.LENGTHS_S, min_length=1)
    hold_max_ms: int = Field(default=HOLD_MAX_MS, ge=1)

    @model_validator(mode="after")
    def _repairs_what_breaks(self) -> Self:
        """With proof, a driver that is refused is a fault that nobody may repair in passing."""
        if self.repair and not self.unproven:
            raise ValueError("--repair needs --unproven: nothing else is to be repaired")
        return self

    @model_validator(mode="after")
    def _holds_back_or_not(self) -> Self:
        """Bounds of time and portions are those of one clock, and of a sender that the chain holds back."""
        if self.rate is None and (self.idle_ms is not None or self.skew is not None):
            raise ValueError("--idle-ms and --skew need --rate: a sender that waits for the chain shows no lag")
        if self.rate is None and self.hold_max_ms != HOLD_MAX_MS:
            raise ValueError("--hold-max-ms needs --rate: a sender that waits for the chain has no gateways")
        return self

    @classmethod
    def of(cls, given: argparse.Namespace) -> Self:
        """What a command line with `add_conditions` says."""
        return cls(**{name: getattr(given, name) for name in cls.model_fields})

    def pipeline(self, gateways: Sequence[str] = ()) -> dict[str, Any]:
        """Settings of the pipeline, where records come from these registered sources."""
        settings: dict[str, Any] = {} if self.idle_ms is None else {"idle_ms": self.idle_ms}
        return {**settings, "sources": tuple(gateways), "hold_max_ms": self.hold_max_ms} if gateways else settings

    @property
    def spark(self) -> dict[str, str]:
        """Settings of Spark."""
        return {**heartbeats(self.network_s), **BLOCKS, **(SHORT_PIPES if self.short_pipes else {})}

    @property
    def named(self) -> dict[str, str]:
        """What is not as usual, as text, for a manifest."""
        return {name: _text(getattr(self, name)) for name in self.model_dump(exclude_defaults=True)}

    @property
    def words(self) -> tuple[str, ...]:
        """The options that say so."""
        return words_of(self.named)


USUAL = Conditions()
_SET, _UNSET = str(True), str(False)


def words_of(named: Mapping[str, str]) -> tuple[str, ...]:
    """The options of a command line that say what a manifest does; whatever else it names is left out."""
    options = [(_option(name), named[name]) for name in Conditions.model_fields if named.get(name, _UNSET) != _UNSET]
    return tuple(word for option, text in options for word in ((option,) if text == _SET else (option, text)))


def add_conditions(parser: argparse.ArgumentParser) -> None:
    """Have a command line set all of them."""
    says = "lengths of stalls and slow disks, of which each comes once before one comes twice"
    _add(parser, "stall_s", _lengths, "S,S", says)
    _add(parser, "cut_s", _lengths, "S,S", "lengths of cuts, of which each comes once before one comes twice")
    _add(parser, "network_s", float, "S", "Spark's time-out of heartbeats")
    _add(parser, "rate", float, "N", "send so many records a second, whatever the pipeline does")
    _add(parser, "idle_ms", int, "MS", "with --rate: time goes by partition; one silent for so long is not waited for")
    _add(parser, "skew", float, "N", "with --rate: the first partition gets so many times the records of another")
    _add(parser, "lag_s", _lengths, "S,S", "lengths of driver-away, partition-lag and gateway-away, with --rate")
    _add(parser, "hold_max_ms", int, "MS", "with gateway-away: windows wait so long for one")
    _add(parser, "payload_bytes", int, "N", "of each record, at least: input that no pipe holds")
    for name, says in (
        ("short_pipes", "pipes between Spark and Python that hold 0.2 MB, not some MB: input ends in the middle"),
        ("unproven", "leave out the proof that a shard's input is whole; then the run has to fail"),
        ("repair", "with --unproven: once drivers were refused, repair the epoch and go on with proof (embedded)"),
    ):
        parser.add_argument(_option(name), action="store_true", help=says)


def refuse_contradictions(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuse options that do not go together; each of them alone was looked at when it was read."""
    try:
        Conditions.of(given)
    except ValidationError as error:
        parser.error(error.errors()[0]["msg"].removeprefix("Value error, "))


def _add(parser: argparse.ArgumentParser, name: str, kind: Callable[[str], Any], shape: str, says: str) -> None:
    # The field alone: what it needs beside it may stand further on in the command line.
    field = TypeAdapter(Conditions.model_fields[name].rebuild_annotation())

    def checked(text: str) -> Any:
        try:
            return field.validate_python(kind(text))
        except ValidationError as error:
            raise argparse.ArgumentTypeError(f"{text}: {error.errors()[0]['msg']}") from error
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text}: {error}") from error

    usual = getattr(USUAL, name)
    parser.add_argument(_option(name), type=checked, default=usual, metavar=shape, help=f"{says} ({_text(usual)})")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _lengths(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
