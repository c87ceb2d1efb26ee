"""`make new-pipeline`: a folder with a pipeline of your own, ready to be tried, run and packed."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from infra import templating
from infra.errors import UserError

TEMPLATES: Final = Path(__file__).parent / "templates" / "pipeline"
FILES: Final = {
    "pyproject.toml": "pyproject.toml.j2",
    "settings.json": "settings.json.j2",
    "README.md": "README.md.j2",
    "src/{name}/__init__.py": "src/__init__.py.j2",
    "src/{name}/transform.py": "src/transform.py.j2",
    "tests/test_{name}.py": "tests/test_pipeline.py.j2",
}
# Of a deployed pipeline: topics, objects in Kubernetes and the Python package are all called so.
_NAME = re.compile(r"[a-z]([a-z0-9_]{0,38}[a-z0-9])?")
_OURS = ("effectively_once", "effectively_once_jobs", "tests")


class NewPipelineError(UserError):
    """The folder cannot be made; the message says why and what to do."""


def new_pipeline(name: str, at: Path | None = None) -> list[str]:
    """Make the folder of a pipeline, and return the lines that say what to do next.

    Args:
        name: of the pipeline and of its Python package.
        at: the folder, which is empty or not there; None for one of that name in the current folder.

    Raises:
        NewPipelineError: the name is not possible or taken, or there is something in the folder.

    """
    if wrong := _mistake(name):
        raise NewPipelineError(wrong)
    folder = (at or Path(name)).expanduser().absolute()
    files = {folder / path.format(name=name): text for path, text in render(name).items()}
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise NewPipelineError(f"{folder} is there, and not empty: name another folder with AT=, or empty it")
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        raise NewPipelineError(f"{folder} cannot be made: {error.strerror}; name another folder with AT=") from error
    return [
        f"✓ pipeline {name} in {folder}",
        f"  declared in src/{name}/__init__.py, tried in tests/test_{name}.py",
        f"  make test AT={folder}     its tests, in memory",
        f"  make run AT={folder}      broker, object store and Spark here, until Ctrl-C",
        "  docs/tutorial.md goes on from here; docs/how-to/your-own-pipeline.md brings it to a cluster",
    ]


def render(name: str) -> dict[str, str]:
    """Return the text of every file by its path, in which `{name}` stands for the name."""
    return {path: templating.render(TEMPLATES / template, name=name) for path, template in FILES.items()}


def _mistake(name: str) -> str | None:
    if not _NAME.fullmatch(name):
        return f"NAME={name!r} is not possible: small letters, digits and _, at most 40, first a letter, last no _"
    if name in {*sys.stdlib_module_names, *keyword.kwlist, *_OURS, *packages_distributions()}:
        return f"NAME={name!r} is taken: a Python package of that name would hide another; choose another one"
    return None
