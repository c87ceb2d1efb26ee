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
    """Why a mutant is the product itself, in other words.

    Attributes:
        module: as in `modules.toml`.
        function: where the mutant is (`windows.Windows.closed`).
        old: the lines that it replaces, without their indentation.
        new: those that it puts there.
        why: a reason that can be checked.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    function: str
    old: str
    new: str
    why: Annotated[str, Field(min_length=20)]

    def fits(self, mutant: Mutant) -> bool:
        """Whether it is of this mutant."""
        return (self.function, self.old, self.new) == (mutant.function, mutant.old, mutant.new)


def read_explanations(modules: Iterable[str], path: Path = EQUIVALENT) -> list[Explanation]:
    """Read all. Raises MutantsError, for one of a module that is not among `modules` as well."""
    known = {*modules}
    try:
        entries = tomllib.loads(path.read_text()).get("equivalent", [])
        # A multi-line text of TOML ends with a line break of its own.
        found = [Explanation(**{name: text.strip() for name, text in entry.items()}) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, ValidationError, TypeError, AttributeError) as error:
        raise MutantsError(f"{path.name} cannot be read: {error}. Correct the entry") from error
    strange = sorted({one.module for one in found} - known)
    if strange:
        raise MutantsError(f"{path.name} explains mutants of {', '.join(strange)}, which is no module")
    if len({(one.function, one.old, one.new) for one in found}) != len(found):
        raise MutantsError(f"{path.name} explains a mutant twice: take one entry out")
    return found


def wrong(explanations: Sequence[Explanation], mutants: Sequence[Mutant]) -> list[str]:
    """Say which explanations of a module do not hold: their mutant is not made any more, or is killed."""
    said = []
    for one in explanations:
        ends = [mutant.end for mutant in mutants if one.fits(mutant)]
        what = f"{one.function}: {one.new.splitlines()[0] if one.new else 'nothing'!r}"
        if not ends:
            said.append(f"the explained mutant {what} is not made any more: take its entry out of equivalent.toml")
        elif any(end != "survived" for end in ends):
            said.append(f"the explained mutant {what} is {'/'.join(sorted(set(ends)))}: it changes something after all")
    return said
