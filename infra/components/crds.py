"""The custom resource definitions of the Spark operator: files of a folder that the stack names, looked at first.

The API server drops fields that a definition does not know without a word, so one of another version would make an
operator that starts and pipelines that lack half of their settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from infra.settings import Settings
from infra.versions import SPARK_OPERATOR, SPARK_OPERATOR_CRDS

SETTING: Final = "spark_operator.crds"
NEEDED: Final = "sparkapplications.sparkoperator.k8s.io"
WAY_OUT: Final = (
    f"`make tools` makes those of {SPARK_OPERATOR} and names their folder; `pulumi config set --path {SETTING} FOLDER`"
)
CHECKOUT: Final = Path(__file__).resolve().parents[2]
"""What a folder with a relative name lies in: the program is run from here, wherever the command was typed."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # they are long, and seconds without the C library


def list_files(settings: Settings) -> list[str]:
    """Return the files that are to be applied, in order; none where an operator is installed."""
    named = settings.spark_operator.crds
    if settings.spark_operator.installed or named is None:
        return []
    return sorted(str(path) for path in _folder(named).glob("*.yaml"))


def find_wrong(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the folder, a line for each file of it; nothing where an operator is installed."""
    named = settings.spark_operator.crds
    if settings.spark_operator.installed:
        return
    if named is None:
        yield f"{SETTING}: has to be set where no operator is installed; {WAY_OUT}"
        return
    files, names, wrong = list_files(settings), set[str](), []
    for file in files:
        try:
            names |= _read_names(Path(file))
        except ValueError as error:
            wrong.append(f"{SETTING}: {file} {error}; {WAY_OUT}")
    if not files:
        wrong.append(f"{SETTING}: {_folder(named)} is no folder with *.yaml files; {WAY_OUT}")
    elif not wrong and NEEDED not in names:
        wrong.append(f"{SETTING}: {_folder(named)} lacks {NEEDED}; {WAY_OUT}")
    yield from wrong


def _folder(named: str) -> Path:
    return CHECKOUT / Path(named).expanduser()


def _read_names(file: Path) -> set[str]:
    """Return the names of the definitions in a file. Raises ValueError, which says of the file what is wrong."""
    try:
        text = file.read_text()
        objects = [one for one in yaml.load_all(text, _LOADER) if one is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"cannot be read ({error.__class__.__name__})") from error
    if not objects or not all(map(_is_definition, objects)):
        raise ValueError("is no CustomResourceDefinition of apiextensions.k8s.io/v1: take it out of the folder")
    if text.partition("\n")[0] != SPARK_OPERATOR_CRDS:
        raise ValueError(f"is of another version: its first line is not {SPARK_OPERATOR_CRDS!r}")
    return {str((one.get("metadata") or {}).get("name")) for one in objects}


def _is_definition(one: Any) -> bool:
    kind = (one.get("apiVersion"), one.get("kind")) if isinstance(one, dict) else ()
    return kind == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
