"""Survivors that change nothing which anybody could see: each with its reason, and checked against what was made."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.mutants.module import MutantsError
from tests.mutants.outcome import Mutant

EQUIVALENT = Path(__file__).parent / "equivalent.toml"


class Explanation(BaseModel):
    """Why a mutant, or several of the same lines, are the product itself in other words.

    Attributes:
        module: as in `modules.toml`.
        function: where the mutant is (`windows.Windows.closed`).
        old: the lines that it replaces, without their indentation.
        new: those that it puts there, for each mutant.
        why: a reason that can be checked.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    function: str
    old: str
    new: Annotated[tuple[str, ...], Field(min_length=1)]
    why: Annotated[str, Field(min_length=20)]

    def fits(self, mutant: Mutant) -> bool:
        """Whether it is of this mutant."""
        return (self.function, self.old) == (mutant.function, mutant.old) and mutant.new in self.new


def read_explanations(modules: Iterable[str], path: Path = EQUIVALENT) -> list[Explanation]:
    """Read all. Raises MutantsError, for one of a module that is not among `modules` as well."""
    known = {*modules}
    try:
        entries = tomllib.loads(path.read_text()).get("equivalent", [])
        found = [Explanation(**{**entry, "new": _several(entry["new"])}) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, ValidationError, TypeError, KeyError) as error:
        raise MutantsError(f"{path.name} cannot be read: {error}. Correct the entry") from error
    strange = sorted({one.module for one in found} - known)
    if strange:
        raise MutantsError(f"{path.name} explains mutants of {', '.join(strange)}, which is no module")
    explained = [(one.function, one.old, new) for one in found for new in one.new]
    if len({*explained}) != len(explained):
        raise MutantsError(f"{path.name} explains a mutant twice: take one entry out")
    return found


def wrong(explanations: Sequence[Explanation], mutants: Sequence[Mutant]) -> list[str]:
    """Say which explanations of a module do not hold: their mutant is not made any more, or is killed."""
    said = []
    for one in explanations:
        for new in one.new:
            fits = one.model_copy(update={"new": (new,)}).fits
            ends = sorted({mutant.end for mutant in mutants if fits(mutant)})
            what = f"{one.function}: {new.splitlines()[0] if new else 'nothing'!r}"
            if not ends:
                said.append(f"the explained mutant {what} is not made any more: take its entry out of equivalent.toml")
            elif ends != ["survived"]:
                said.append(
                    f"the explained mutant {what} ended as {' and '.join(ends)}: it changes something after all"
                )
    return said


def _several(new: str | list[str]) -> list[str]:
    return [new] if isinstance(new, str) else new
