"""The parts of a soak: declared in a file beforehand, or drawn from a seed; data and pure functions only."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra.errors import UserError
from tests.harness.cluster_sorts import CLUSTER, COPIES_NEEDED
from tests.harness.conditions import USUAL, Conditions
from tests.harness.lag_sorts import IN_PODS
from tests.harness.mixture import EMBEDDED, GROUPS, UNPACED, NoFaultError, Stack, name_of, parse_faults
from tests.harness.schedule import Strike
from tests.harness.workload.shape import SMALLEST

OF_ONE_COPY = {name: one for name, one in CLUSTER.items() if name not in COPIES_NEEDED}
"""Sorts of the cluster that plans are for: servers of several copies are struck by `make acceptance SUITE=ha`."""
SORTS = {"embedded": EMBEDDED, "cluster": OF_ONE_COPY}
OF_UNPACED = {"embedded": UNPACED, "cluster": {**OF_ONE_COPY, **IN_PODS}}
"""Where the sender goes on through outages."""
NAMED = r"^[a-z0-9][a-z0-9-]*$"
DRAWN_FAULTS, DRAWN_RECORDS = 8, 60_000
"""Of a part that is drawn: some five minutes."""


class PlanError(UserError):
    """The plan of a soak is none; the message says where, and what is allowed."""


class Part(BaseModel):
    """One run of a campaign, as `make chaos` is asked for it.

    Attributes:
        name: what the state and the output call it.
        stack: what it strikes.
        seed: draws what is sent, and when what is done.
        faults: as FAULTS= takes them.
        records: how many are sent.
        controls: whether the negative controls are played.
        conditions: under which the pipeline runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAMED)
    stack: Stack
    seed: int = Field(ge=0)
    faults: str
    records: int = Field(ge=SMALLEST)
    controls: bool = False
    conditions: Conditions = USUAL

    @model_validator(mode="after")
    def _faults_of_the_stack(self) -> Self:
        try:
            parse_faults(self.faults, self.seed, self._sorts)
        except NoFaultError as error:
            raise ValueError(f"faults: {error}, on the stack {self.stack}") from error
        return self

    @property
    def _sorts(self) -> Mapping[str, Strike]:
        return (SORTS if self.conditions.rate is None else OF_UNPACED)[self.stack]

    @property
    def strikes(self) -> Counter[str]:
        """How often each sort is done, on a stack that has all of them."""
        return Counter(name_of(one) for one in parse_faults(self.faults, self.seed, self._sorts))

    @property
    def command(self) -> tuple[str, ...]:
        """The module that runs it, and its arguments."""
        words = ("--on", self.stack, "--seed", str(self.seed), "--faults", self.faults, "--records", str(self.records))
        without = () if self.controls else ("--no-controls",)
        return ("tests.harness.campaigns.chaos", *words, *self.conditions.words, *without)

    def is_run(self, manifest: Mapping[str, Any]) -> bool:
        """Whether a `manifest.json` is that of a run of this part."""
        settings = manifest.get("settings")
        if not isinstance(settings, dict):
            return False
        found = (settings.get("campaign"), manifest.get("seed"), settings.get("records"))
        if found != (self.stack, self.seed, str(self.records)) or bool(manifest.get("controls")) != self.controls:
            return False
        # What no condition set stands there too, as a default of another type.
        conditions = {name: settings[name] for name in Conditions.model_fields if isinstance(settings.get(name), str)}
        if conditions != self.conditions.named:
            return False
        # What `all`, a number and a group come to depends on what the stack of that day has.
        groups = {word.strip().partition("*")[0] for word in self.faults.split(",")} & {*GROUPS}
        by_name = self.faults != "all" and not self.faults.isdecimal() and not groups
        return not by_name or Counter(str(settings.get("faults")).split(",")) == self.strikes


class Plan(BaseModel):
    """A campaign in parts, in this order."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field(pattern=NAMED)
    parts: tuple[Part, ...] = Field(alias="part", min_length=1)

    @model_validator(mode="after")
    def _refuse_twins(self) -> Self:
        if twice := _twice([one.name for one in self.parts]):
            raise ValueError(f"two parts are called {twice}; a name is that of one part")
        if twice := _twice([f"{one.seed} on {one.stack}" for one in self.parts]):
            raise ValueError(f"two parts have seed {twice}: their runs show one thing twice")
        return self


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML or JSON file.

    Raises:
        PlanError: the file cannot be read, is not in its format, or is no plan.
    """
    try:
        content = path.read_bytes()
        document = orjson.loads(content) if path.suffix == ".json" else tomllib.loads(content.decode())
    except OSError as error:
        raise PlanError(f"PLAN={path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PlanError(f"PLAN={path} is no {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from error
    try:
        return Plan.model_validate(document)
    except ValidationError as error:
        raise PlanError("\n  ".join([f"PLAN={path} is no plan:", *_mistakes(error, document)])) from error


def draw(seed: int, number: int, stacks: Sequence[Stack]) -> Part:
    """The part of a number, from 1, of a soak without a plan: stacks in turn; controls with the first on each."""
    stack = stacks[(number - 1) % len(stacks)]
    own = random.Random(f"part {number} of soak {seed}").randrange(1_000_000)
    return Part(
        name=f"part-{number}",
        stack=stack,
        seed=own,
        faults=str(DRAWN_FAULTS),
        records=DRAWN_RECORDS,
        controls=number <= len(stacks),
    )


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _mistakes(error: ValidationError, document: object) -> Iterator[str]:
    """A line a mistake: which part, which field, what it is and what is allowed."""
    for one in error.errors():
        where = [str(step) for step in one["loc"]]
        if where[:1] == ["part"] and len(where) > 1:
            number = int(where[1])
            name = _name_of_part(document, number)
            where = [f"part {number + 1}{f' ({name})' if name else ''}", *where[2:]]
        message = one["msg"].removeprefix("Value error, ")
        found = "" if one["type"] in ("missing", "value_error") else f", and is {one['input']!r}"
        yield f"{', '.join([*where, message])}{found}"


def _name_of_part(document: object, number: int) -> str:
    parts = document.get("part") if isinstance(document, dict) else None
    one = parts[number] if isinstance(parts, list) and number < len(parts) else None
    return str(one["name"]) if isinstance(one, dict) and "name" in one else ""
