"""The modules of the core: which files of the product are mutated, and which tests have to notice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.errors import UserError
from infra.toolchain.prepare import CHECKOUT
from tests.planted.garden import PACKAGE, PIPELINES

MODULES = Path(__file__).parent / "modules.toml"


class MutantsError(UserError):
    """Nothing can be said of the mutants. The message says why and what to do."""


class Module(BaseModel):
    """A part of the core.

    Attributes:
        sources: files below the product's package; `*` stands for any in a folder.
        tests: files of the unit suite that are played against its mutants. They start no servers.

    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> list[str]:
        """Its files, below the folder of sources. Raises MutantsError."""
        sources = PIPELINES / "src"
        found: list[str] = []
        for pattern in self.sources:
            paths = sorted((sources / PACKAGE).glob(pattern))
            if not paths:
                raise MutantsError(f"module {self.name} has no file {pattern}: correct modules.toml")
            found += [str(path.relative_to(sources)) for path in paths]
        return found

    def checked(self) -> Module:
        """Return it when what it names is there. Raises MutantsError."""
        self.files()
        for test in self.tests:
            if not (CHECKOUT / test).is_file():
                raise MutantsError(f"module {self.name} has no tests {test}: correct modules.toml")
        return self


def read_modules(path: Path = MODULES) -> list[Module]:
    """Read all modules, in the order of the file. Raises MutantsError."""
    try:
        return [Module(name=name, **entry).checked() for name, entry in tomllib.loads(path.read_text()).items()]
    except (OSError, tomllib.TOMLDecodeError, ValidationError, TypeError) as error:
        raise MutantsError(f"{path.name} cannot be read: {error}. Correct it") from error


def pick(modules: Sequence[Module], only: Iterable[str]) -> list[Module]:
    """Return those of some names, or all. Raises MutantsError for a name that is not there."""
    wanted = [*only]
    names = [module.name for module in modules]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise MutantsError(f"there is no module {', '.join(unknown)}; modules are {', '.join(names)}")
    return [module for module in modules if not wanted or module.name in wanted]
