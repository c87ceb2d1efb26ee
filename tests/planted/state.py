"""Digests of what an outcome depends on, so that what was played is not played again."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT
from tests.harness.commit import describe_commit
from tests.planted.garden import PIPELINES, Bug

TESTS = CHECKOUT / "tests"
TOOL = ("limits", "season", "suite", "witness")
"""What of this package decides how a bug is played."""


def digest_of(bug: Bug) -> str:
    """Digest of a bug, of the product, of the tests that play it and of what these import, and of the packages.

    Tests with servers, campaigns, and what is played in a copy of the whole checkout depend on all of it.
    """
    if not bug.whole:
        files = _closure(tuple(sorted({test.partition("::")[0] for test in bug.tests})))
    else:
        files = [
            path
            for folder in ("tests", "infra")
            for path in (CHECKOUT / folder).rglob("*")
            if path.suffix in (".py", ".j2")
        ]
    hashed = hashlib.sha256(f"{sys.version}\0{product_digest()}\0{bug.digest()}".encode())
    _add(hashed, [*files, *(TESTS / "planted" / f"{name}.py" for name in TOOL), CHECKOUT / "requirements.lock"])
    return hashed.hexdigest()


@cache
def product_digest() -> str:
    """Digest of the sources of the product."""
    hashed = hashlib.sha256()
    _add(hashed, (path for path in PIPELINES.rglob("*") if path.suffix in (".py", ".java")))
    return hashed.hexdigest()


def product_stated() -> str:
    """State for a page of which product it is."""
    return f"The product's sources have the digest `{product_digest()[:16]}`, {describe_commit(CHECKOUT)}."


@cache
def _closure(tests: tuple[str, ...]) -> list[Path]:
    """Test files, the modules of `tests` that they import, and the conftest files above them."""
    found: set[Path] = set()
    left = [CHECKOUT / test for test in tests]
    while left:
        path = left.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        left += _imported(path)
        left += [folder / "conftest.py" for folder in path.parents if TESTS in (folder, *folder.parents)]
    return sorted(found)


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (CHECKOUT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("tests."))


def _add(hashed: hashlib._Hash, files: Iterable[Path]) -> None:
    for path in sorted(set(files)):
        if "__pycache__" not in path.parts:
            hashed.update(f"{path.relative_to(CHECKOUT)}\0".encode() + _meant(path) + b"\0")


def _meant(path: Path) -> bytes:
    """What a file holds; of Python without comments and form, which change no outcome."""
    content = path.read_bytes()
    return ast.dump(ast.parse(content)).encode() if path.suffix == ".py" else content
