"""The planted bugs: what each replaces in the product, which promise it breaks, and the cheapest run that must see it.

A file of `bugs/` is an area. Nothing of them is in the shipped wheel: they are text, and are put into a copy.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra.errors import UserError
from infra.toolchain.prepare import CHECKOUT

BUGS = Path(__file__).parent / "bugs"
PACKAGE, JOBS = Path("effectively_once"), Path("effectively_once_jobs")
PIPELINES = CHECKOUT / "pipelines"
WHOLE = {"infra": Path("infra"), "cli": Path("tests") / "cli", "judge": Path("tests") / "harness"}
"""Folders whose bugs need a copy of the whole checkout, by what an entry calls them."""
UNIT: Final = "unit"
SERVERS: Final = "servers"
EMBEDDED: Final = "embedded"
Run = Literal["unit", "servers", "embedded"]


class GardenError(UserError):
    """A bug cannot be planted, or nothing can be said of it. The message says which, why and what to do."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Edit(_Frozen):
    """One replacement in a file of the product; `old` stands in it exactly once.

    The file is named from the library's folder on; `jobs/...` is one of the jobs, `jvm/...` one of Java's, `infra/...`
    one of what builds and deploys (templates of `new-pipeline` among them), `cli/...` one of the commands of `make`,
    `judge/...` one of the harness, whose verdict is what is proven by.
    """

    file: str
    old: Annotated[str, Field(min_length=1)]
    new: str

    @property
    def path(self) -> Path:
        """Below the checkout."""
        top, _, rest = self.file.partition("/")
        if top in WHOLE:
            return WHOLE[top] / rest
        if top == "jvm":
            return Path("pipelines") / self.file
        return Path("pipelines") / "src" / (JOBS / rest if top == "jobs" else PACKAGE / self.file)

    @property
    def whole(self) -> bool:
        """Whether a copy of the pipelines alone does not hold the file."""
        return self.path.parts[0] != "pipelines"

    def applied(self, text: str) -> str:
        """Return the file's text with the bug in it. Raises ValueError when `old` is not there exactly once."""
        number = text.count(self.old)
        if number != 1:
            first = self.old.strip().splitlines()[0].strip()
            raise ValueError(f"{self.file} has {number} times what is replaced, which begins with {first!r}")
        return text.replace(self.old, self.new)


class Bug(_Frozen):
    """One fault of the product.

    Attributes:
        name: within its area.
        area: the file of `bugs/` that it is from.
        breaks: the rule or sentence that does not hold any more.
        edits: what is replaced.
        run: `unit` plays `tests`, `servers` those that start broker, store or Spark; `embedded` plays a small campaign,
            whose judge has to find it.
        tests: files or node ids of the cheapest suite that must catch it.

    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    area: str
    breaks: Annotated[str, Field(min_length=1)]
    edits: Annotated[tuple[Edit, ...], Field(min_length=1)]
    run: Run = UNIT
    tests: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> Bug:
        if (self.run == EMBEDDED) == bool(self.tests):
            raise ValueError("a bug that a suite catches names its tests, one of an embedded run names none")
        if any(edit.old == edit.new for edit in self.edits):
            raise ValueError("nothing is replaced")
        return self

    @property
    def id(self) -> str:
        """Area and name."""
        return f"{self.area}.{self.name}"

    @property
    def whole(self) -> bool:
        """Whether it is played in a copy of the whole checkout."""
        return self.run != UNIT or any(edit.whole for edit in self.edits)

    def digest(self) -> str:
        """Digest of the entry."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def plant(self, checkout: Path) -> None:
        """Write the bug into a copy of the checkout, or of its part that the edits are in. Raises GardenError."""
        for edit in self.edits:
            path = checkout / edit.path
            try:
                path.write_text(edit.applied(path.read_text()))
            except (OSError, ValueError) as error:
                raise GardenError(
                    f"bug {self.id} cannot be planted: {error}. The product has changed: correct the entry in "
                    f"bugs/{self.area}.toml"
                ) from error


def read_garden(folder: Path = BUGS) -> list[Bug]:
    """Read all bugs, by area and in the order of their files. Raises GardenError."""
    found: list[Bug] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            entries = tomllib.loads(path.read_text()).get("bug", [])
            found += [_of_entry(path.stem, entry) for entry in entries]
        except (tomllib.TOMLDecodeError, ValidationError, TypeError) as error:
            raise GardenError(f"{path.name} cannot be read: {error}. Correct the entry") from error
    if not found:
        raise GardenError(f"there are no bugs in {folder.name}: name a folder of TOML files")
    twice = sorted({bug.id for bug in found if sum(bug.id == other.id for other in found) > 1})
    if twice:
        raise GardenError(f"two bugs have one name: {', '.join(twice)}. Rename one")
    return found


def pick(garden: Sequence[Bug], only: Iterable[str], run: str | None = None) -> list[Bug]:
    """Return the bugs of some areas, or of some names (`area.name`). Raises GardenError for what is not there."""
    wanted = [*only]
    unknown = [word for word in wanted if not any(word in (bug.area, bug.id) for bug in garden)]
    if unknown:
        areas = ", ".join(dict.fromkeys(bug.area for bug in garden))
        raise GardenError(f"there is no bug or area {', '.join(unknown)}; areas are {areas}, bugs are area.name")
    chosen = [bug for bug in garden if not wanted or bug.area in wanted or bug.id in wanted]
    chosen = [bug for bug in chosen if run in (None, bug.run)]
    if not chosen:
        raise GardenError(f"none of these bugs is caught by a run of the kind {run}")
    return chosen


def _of_entry(area: str, entry: dict[str, Any]) -> Bug:
    """Read an entry; one replacement may stand in the entry itself."""
    content = dict(entry)
    if "file" in content:
        content["edits"] = [{name: content.pop(name, "") for name in ("file", "old", "new")}]
    return Bug(area=area, **content)
