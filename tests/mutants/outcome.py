"""What came of the mutants of a module, as mutmut and its maker left it in the tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tests.mutants.module import Module, MutantsError
from tests.planted.garden import PACKAGE

End = Literal["killed", "time", "survived", "untested"]
"""killed: a test failed, or the process with it. time: it met its limit. untested: no test calls the function."""
SURVIVED, UNTESTED, NOT_PLAYED = (0,), (5, 33), (None, 34)
TIME = (24, 36, 152, 255, -24, -9)
"""SIGXCPU at a limit, and the SIGKILL that follows a second later."""


class Mutant(BaseModel):
    """A mutant and its end.

    Attributes:
        name: as mutmut spells it; the same in every run as long as product and tool are the same.
        function: where it is, from the package on (`windows.Windows.closed`).
        old: the lines that it replaces, without their indentation.
        new: those that it puts there.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    function: str
    old: str
    new: str
    diff: str
    end: End

    @property
    def killed(self) -> bool:
        """Whether the tests noticed it."""
        return self.end in ("killed", "time")


class Outcome(BaseModel):
    """What came of a module.

    Attributes:
        digest: of what it depends on.
        tests: the files that were played.
        spared: mutants that only word an error otherwise, and were not made.
        seconds: that it took.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    digest: str
    tests: tuple[str, ...]
    mutants: tuple[Mutant, ...]
    spared: int
    seconds: float

    @property
    def killed(self) -> list[str]:
        """Names of the mutants that need not be played again where only tests are added."""
        return [mutant.name for mutant in self.mutants if mutant.killed]

    def with_added(self, played: Outcome) -> Outcome:
        """Add what came of further tests: whatever these or those kill is killed."""
        ends = [
            before if before.killed or after.end == "untested" else after
            for before, after in zip(self.mutants, played.mutants, strict=True)
        ]
        return self.model_copy(update={"mutants": tuple(ends), "seconds": round(self.seconds + played.seconds, 1)})


def read_outcome(module: Module, tree: Path, digest: str, seconds: float) -> Outcome:
    """Read what the tree holds. Raises MutantsError where a mutant has not been played."""
    mutants: list[Mutant] = []
    spared = 0
    for file in module.files():
        made: dict[str, Any] = _read(tree / "made" / "src" / f"{file}.json")
        ends: dict[str, int | None] = _read(tree / "mutants" / "src" / f"{file}.meta")["exit_code_by_key"]
        dotted = file.removesuffix(".py").replace("/", ".")
        place = dotted.removeprefix(f"{PACKAGE}.").removesuffix(".__init__")
        spared += made["spared"]
        for one in made["mutants"]:
            name = f"{dotted.removesuffix('.__init__')}.{one['name']}"
            mutants.append(
                Mutant(
                    name=name,
                    function=f"{place}.{one['function']}",
                    old=one["old"],
                    new=one["new"],
                    diff=one["diff"],
                    end=end_of(name, ends.get(name)),
                )
            )
    if not mutants:
        raise MutantsError(f"nothing of module {module.name} can be mutated: correct modules.toml")
    return Outcome(
        module=module.name,
        digest=digest,
        tests=module.tests,
        mutants=tuple(mutants),
        spared=spared,
        seconds=round(seconds, 1),
    )


def end_of(name: str, code: int | None) -> End:
    """Return the end that the exit code of a mutant's tests means. Raises MutantsError for one without."""
    if code in NOT_PLAYED:
        raise MutantsError(f"mutant {name} was not played: repeat the command")
    if code in SURVIVED:
        return "survived"
    if code in UNTESTED:
        return "untested"
    return "time" if code in TIME else "killed"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise MutantsError(f"mutmut left no {path.name}: {error}") from error
