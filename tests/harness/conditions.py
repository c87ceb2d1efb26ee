"""Under which conditions a campaign's pipeline runs: lengths of faults, time-outs, sizes of records, its proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import typer
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tests.harness import cut_sorts, lag_sorts, stall_sorts
from tests.harness.spread import BLOCKS, NETWORK_S, SHORT_PIPES, heartbeats

HOLD_MAX_MS = 600_000
"""The product's own."""
LONGEST_S = 150.0
"""The harness gives up a store that does not answer for 180 s."""
Length = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
Lengths = Annotated[
    tuple[Length, ...],
    Field(min_length=1),
    BeforeValidator(lambda given: given.split(",") if isinstance(given, str) else given),
]
"""Each comes once before one comes twice."""


PANEL = "Under which conditions the pipeline runs"


def _says(help_: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_, metavar=metavar, rich_help_panel=PANEL)


def _flag(name: str, help_: str) -> Any:
    """One that has no opposite."""
    return typer.Option(name, help=help_, rich_help_panel=PANEL)


class Conditions(BaseModel):
    """What a command line or a part of a soak sets beside seed, faults and records; each is an option of that name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stall_s: Annotated[Lengths, _says("lengths of stalls and slow disks, each once before one comes twice", "S,S")] = (
        stall_sorts.LENGTHS_S
    )
    cut_s: Annotated[Lengths, _says("likewise of cuts", "S,S")] = cut_sorts.LENGTHS_S
    network_s: Annotated[float, Field(ge=1, le=LONGEST_S), _says("Spark's time-out of heartbeats", "S")] = NETWORK_S
    payload_bytes: Annotated[
        int, Field(ge=0, le=1 << 19), _says("of each record, at least: input that no pipe holds", "N")
    ] = 0
    # In pods a pipeline has four executors then, as it has embedded.
    short_pipes: Annotated[
        bool,
        _flag(
            "--short-pipes", "pipes between Spark and Python that hold 0.2 MB, not some MB: input ends in the middle"
        ),
    ] = False
    unproven: Annotated[
        bool, _flag("--unproven", "leave out the proof that a shard's input is whole (R13); then the run has to fail")
    ] = False
    repair: Annotated[
        bool,
        _flag(
            "--repair", "with --unproven: once drivers were refused, repair the epoch and go on with proof (embedded)"
        ),
    ] = False
    rate: Annotated[
        float | None,
        Field(gt=0, le=100_000, allow_inf_nan=False),
        _says("send so many records a second, whatever the pipeline does; else the chain holds the sender back", "N"),
    ] = None
    idle_ms: Annotated[
        int | None,
        Field(ge=1),
        _says("with --rate: time goes by partition; one silent for so long is not waited for", "MS"),
    ] = None
    skew: Annotated[
        float | None,
        Field(ge=1, allow_inf_nan=False),
        _says("with --rate: the first partition gets so many times the records of another", "N"),
    ] = None
    lag_s: Annotated[
        Lengths, _says("likewise of leaders, drivers and gateways away, partition-lag, with --rate", "S,S")
    ] = lag_sorts.LENGTHS_S
    hold_max_ms: Annotated[int, Field(ge=1), _says("with gateway-away: windows wait so long for one", "MS")] = (
        HOLD_MAX_MS
    )

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


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
