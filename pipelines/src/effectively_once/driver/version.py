"""What code a start is of: without a wheel other code is another version (R3), wherever the job has it from."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARY = Path(__file__).parents[1]
_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_FOLDERS_OF_INSTALLED = {"site-packages", "dist-packages"}
_NOT_THE_JOBS = {"effectively_once", "pyspark", "py4j"}
"""The library is digested as a whole; Spark's Python is on some machines beside Spark, not where packages are."""


def code_digest(*functions: Callable[..., Any]) -> str:
    """Digest of the library and of a job's own code.

    That is the modules of the functions, all that is in their packages, and whatever these import, but for what is
    installed and Python's own. No module is run for it. Data files are not in it, nor is a module that is loaded by a
    computed name.
    """
    found: dict[str, Path] = {}
    left = [module for function in functions for module in _own(function)]
    while left:
        name, path = left.pop()
        if name not in found:
            found[name] = path
            left += [module for one in _list_imports(path, name) for module in _files(one)]
    return _digest(_modules(LIBRARY) | found)


def package_digests(*functions: Callable[..., Any]) -> dict[str, str]:
    """Digests of the library and of each top-level package that the functions are in: name -> 64 hex digits.

    Other than `code_digest`, which passes over what is installed, they are of the same digits wherever a package lies:
    in a checkout, in an unpacked wheel, in an image.
    """
    # Methods of Python's own types are of no module.
    modules = (getattr(_code_of(function), "__module__", None) or "" for function in functions)
    names = {LIBRARY.name, *(module.partition(".")[0] for module in modules)}
    places = {name: _place_of(sys.modules[name]) for name in sorted(names & {*sys.modules})}
    return {name: package_digest(place) for name, place in places.items() if place is not None}


def package_digest(place: Path) -> str:
    """Digest of all Python files of a package, or of a module that is a file alone, by their names below its place."""
    return _digest(_modules(place) if place.is_dir() else {place.name: place})


def _modules(package: Path) -> dict[str, Path]:
    return {path.relative_to(package.parent).as_posix(): path for path in package.rglob("*.py")}


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _place_of(module: ModuleType) -> Path | None:
    """Return the folder of a package, the file of another module; None where there is neither, as in a prompt."""
    folders, file = [*getattr(module, "__path__", ())], getattr(module, "__file__", None)
    return Path(folders[0]) if folders else Path(file) if file else None


def _code_of(function: Callable[..., Any]) -> Any:
    """Return what is written down of a function; an object that is called has the code of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function)


def _own(function: Callable[..., Any]) -> Iterator[tuple[str, Path]]:
    """Give the module that a function is written in, and all of its package: names and files."""
    code = _code_of(function)
    try:
        source = inspect.getsourcefile(code)
    except TypeError:
        # Python's own, as `int` and `max` are, which are an aggregate's functions at times.
        source = None
    if source is None:
        return
    path = Path(source)
    yield code.__module__, path
    yield from _files(code.__module__)
    package = getattr(sys.modules.get(code.__module__), "__package__", None)
    if package and _is_own(package, path):
        for below in path.parent.rglob("*.py"):
            parts = [package, *below.relative_to(path.parent).with_suffix("").parts]
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), below


def _list_imports(path: Path, name: str) -> Iterator[str]:
    """Name what a file imports, at its top or inside of functions; some are no modules but what is in one."""
    if path.suffix != ".py":
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """Give the job's own modules that an import of a name runs: itself and the packages it is in."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    places = [spec.origin] if spec and spec.has_location and spec.origin else []
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    known = top
    file = Path(places[0]) if places else None
    while file is not None or folders:
        if file is not None:
            if not _is_own(known, file):
                return
            yield known, file
        if not rest:
            return
        part, known = rest[0], f"{known}.{rest.pop(0)}"
        beside = [path for folder in folders for path in _candidates(folder, part)]
        file = next((path for path in beside if path.is_file()), None)
        inner = [folder / part for folder in folders if (folder / part).is_dir()]
        folders = [file.parent] if file is not None and file.name == "__init__.py" else [] if file else inner


def _candidates(folder: Path, name: str) -> list[Path]:
    return [folder / name / "__init__.py", folder / f"{name}.py", *sorted(folder.glob(f"{name}.*.so"))]


def _is_own(name: str, path: Path) -> bool:
    """Whether code is the job's: a file that was not installed, and no part of this library."""
    where = path.resolve()
    return (
        name.partition(".")[0] not in _NOT_THE_JOBS
        and path.is_file()
        and not _FOLDERS_OF_INSTALLED.intersection(where.parts)
        and not any(where.is_relative_to(folder) for folder in _INSTALLED)
    )
