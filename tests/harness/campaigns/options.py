"""What a command line asks of a campaign: each field is an option, on either stack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

import typer
from pydantic import model_validator

from tests.harness.conditions import Conditions
from tests.harness.faults.arsenal import Lengths
from tests.harness.faults.cluster_arsenal import ZOMBIE_S
from tests.harness.faults.cluster_platform import PlatformLengths
from tests.harness.mixture import GROUPS, Stack

FAULTS, RECORDS = "all", 60_000
OF_A_DEFINITION: dict[Stack, str] = {
    "embedded": "executor-kill*2,worker-kill,driver-kill,broker-kill,store-kill",
    "cluster": "executor-kill*2,worker-stall,driver-kill,broker-kill,store-kill",
}
"""Faults of a pipeline that its author defined, where nothing is said."""
SEEDED = ("records", "rate", "idle_ms", "skew", "lag_s", "hold_max_ms", "payload_bytes", "unproven", "repair")
"""What is of the seeded stream alone, and of the pipeline that it is made for."""
OWN = ("at", "job", "input")
"""What names a pipeline that its author defined."""
BOTH = ("broker_stop_s", "store_stop_s")
ALONE: dict[Stack, tuple[str, ...]] = {
    "embedded": (
        "broker_down_s",
        "broker_long_stop_s",
        "store_down_s",
        "database_down_s",
        "database_stop_s",
        "store_answers_s",
        "clock_s",
        "repair",
    ),
    "cluster": ("api_outage_s", "dns_outage_s", "node_down_s", "zombie_s"),
}
"""What one stack has alone. In pods an operator repairs."""
HERE, PODS = Lengths(), PlatformLengths()


def _lasts(says: str) -> Any:
    return typer.Option(help=says, metavar="S", rich_help_panel="How long faults last")


def _own(says: str) -> Any:
    return typer.Option(help=says, rich_help_panel="A pipeline of yours, on records of yours")


class Campaign(Conditions):
    """Strike every role of a stack by the plan of a seed, judge the outputs; exit code 0 pass, 1 fail, 2 unknown."""

    on: Annotated[Stack, typer.Option(help="The stack: on this machine, or that of `up`.")] = "embedded"
    seed: Annotated[int | None, typer.Option(help="What is sent and struck; drawn and printed when left out.")] = None
    faults: Annotated[
        str,
        typer.Option(
            help=f"{FAULTS}, {', '.join(GROUPS)}, a number, or names with commas between, name*count.",
            show_default=FAULTS,
        ),
    ] = ""
    records: Annotated[int, typer.Option(help="Of the seeded stream.")] = RECORDS
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Print the plan of the seed, on a cluster that of two nodes, and do nothing."),
    ] = False
    controls: Annotated[
        bool, typer.Option(" /--no-controls", help="Leave the negative controls out.", show_default=False)
    ] = True

    broker_down_s: Annotated[float, _lasts("embedded: between a killed broker's end and its start")] = (
        HERE.broker_down_s
    )
    broker_stop_s: Annotated[float, _lasts("a stopped broker's stop")] = HERE.broker_stop_s
    broker_long_stop_s: Annotated[float, _lasts("embedded: its stop beyond the time-out of transactions")] = (
        HERE.broker_long_stop_s
    )
    store_down_s: Annotated[float, _lasts("embedded: between a killed store's end and its start")] = HERE.store_down_s
    store_stop_s: Annotated[float, _lasts("a stopped store's stop")] = HERE.store_stop_s
    store_answers_s: Annotated[float, _lasts("embedded: as long the answers of a store go wrong")] = (
        HERE.store_answers_s
    )
    database_down_s: Annotated[float, _lasts("embedded: between a killed result store's end and its start")] = (
        HERE.database_down_s
    )
    database_stop_s: Annotated[float, _lasts("embedded: a stopped result store's stop")] = HERE.database_stop_s
    clock_s: Annotated[float, _lasts("embedded: as long the driver's clock is wrong")] = HERE.clock_s
    api_outage_s: Annotated[float, _lasts("cluster: the API server's stop")] = PODS.api_outage_s
    dns_outage_s: Annotated[float, _lasts("cluster: DNS' stop")] = PODS.dns_outage_s
    node_down_s: Annotated[float, _lasts("cluster: between a node's end and its start")] = PODS.node_down_s
    zombie_s: Annotated[float, _lasts("cluster: longest time that the driver beside a zombie may take to publish")] = (
        ZOMBIE_S
    )

    at: Annotated[Path | None, _own("Its folder, as new-pipeline makes it.")] = None
    job: Annotated[str | None, _own("module or module:name of one; the settings' when left out.")] = None
    input: Annotated[Path | None, _own("Its records: .jsonl, .csv or .parquet.")] = None
    key: Annotated[str | None, _own("Column that is the key of a record.")] = None
    time: Annotated[str | None, _own("Column of the event time.")] = None

    @model_validator(mode="before")
    @classmethod
    def _usual_faults(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Say which faults are meant where nothing is said."""
        own = any(given.get(name) is not None for name in OWN)
        usual = OF_A_DEFINITION[given.get("on", "embedded")] if own else FAULTS
        return {**given, "faults": given.get("faults") or usual}

    @model_validator(mode="after")
    def _of_its_stack(self) -> Self:
        for stack, names in ALONE.items():
            if stack != self.on and (name := self._set(names)):
                raise ValueError(f"{name} is for the {stack} stack: leave it out, or give --on {stack}")
        return self

    @model_validator(mode="after")
    def _of_its_records(self) -> Self:
        if not self.is_defined:
            if self.key is not None or self.time is not None:
                raise ValueError("KEY and TIME name columns of a file: give INPUT as well")
            return self
        if self.at is None and self.job is None:
            raise ValueError("name the folder of a pipeline (--at), or a job of the library (--job)")
        if lacking := [f"--{name}" for name in ("input", "key", "time") if getattr(self, name) is None]:
            raise ValueError(f"a pipeline of yours is struck on records of yours: give {', '.join(lacking)} as well")
        if name := self._set(SEEDED):
            raise ValueError(f"{name} is of the seeded stream, and your file is sent")
        return self

    def _set(self, names: tuple[str, ...]) -> str | None:
        """The first option of these that is not as usual."""
        fields = type(self).model_fields
        unusual = (name for name in names if getattr(self, name) != fields[name].default)
        return next((f"--{name.replace('_', '-')}" for name in unusual), None)

    @property
    def is_defined(self) -> bool:
        """Whether a pipeline is struck that its author defined, on records of a file."""
        return any(getattr(self, name) is not None for name in OWN)

    @property
    def conditions(self) -> Conditions:
        """Under which the pipeline runs."""
        return Conditions(**{name: getattr(self, name) for name in Conditions.model_fields})

    @property
    def lengths(self) -> Lengths:
        """Of the embedded stack's faults."""
        return Lengths(**{name: getattr(self, name) for name in (*BOTH, *ALONE["embedded"]) if name != "repair"})

    @property
    def lengths_in_pods(self) -> PlatformLengths:
        """Of the cluster's faults."""
        return PlatformLengths(
            **{name: getattr(self, name) for name in (*BOTH, *ALONE["cluster"]) if name != "zombie_s"}
        )
