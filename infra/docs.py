"""Builds the documentation as a site, in an environment of its own; its links and its form are checked."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.bootstrap import key_here
from infra.console import Console
from infra.toolchain import command
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import CHECKOUT

LOCK = CHECKOUT / "docs" / "requirements.lock"
SITE = CHECKOUT / "build" / "site"
WRAP = ("--wrap", "100", "--number", "--compact-tables")
WRITTEN_BY_HAND = ("*.md", "docs/*.md", "docs/[!e]*/*.md", "docs/explanation/*.md", "docs/evidence/kept.md")
WRITTEN_BY_PROGRAMS = ("docs/reference/benchmarks.md", "docs/reference/refusals.md")
"""And the pages of runs that are kept."""


def environment(cache: Cache) -> Path:
    """Return the folder of programs that build the site, installed first if need be. Raises ToolchainError."""

    def build(directory: Path) -> None:
        install = ("pip", "install", "--quiet", "--require-hashes", "--requirement", LOCK, "--python")
        log = cache.root / "logs" / "docs.log"
        hint = "check that pip reaches its package index"
        command.run("an environment", [sys.executable, "-m", "venv", directory], log=log, hint=hint)
        uv = Path(sys.executable).with_name("uv")
        command.run("packages", (uv, *install, directory / "bin" / "python"), log=log, hint=hint)

    return cache.get("docs", key_here(LOCK.read_bytes()), build, in_place=True) / "bin"


def pages() -> list[Path]:
    """Return the pages that are written by hand."""
    found = {path for pattern in WRITTEN_BY_HAND for path in CHECKOUT.glob(pattern)}
    return sorted(found - {CHECKOUT / name for name in WRITTEN_BY_PROGRAMS})


def build(console: Console, cache: Cache, *, form: bool) -> Path:
    """Build the site; with `form` pages are brought into their form first, else it is demanded.

    Raises:
        ToolchainError: a link leads nowhere, or a page is not in its form.

    """
    logs = cache.root / "logs"
    with console.step("packages of the documentation"):
        programs = environment(cache)
    with console.step("form of pages"):
        check = () if form else ("--check",)
        argv: tuple[str | Path, ...] = (programs / "mdformat", *WRAP, *check, *pages())
        command.run("mdformat", argv, log=logs / "mdformat.log", hint="`make docs ARGS=--form` mends it")
    with console.step("site"):
        argv = (programs / "mkdocs", "build", "--strict", "--site-dir", SITE)
        environ = {"NO_MKDOCS_2_WARNING": "1"}
        hint = "correct the page that is named"
        command.run("mkdocs", argv, log=logs / "mkdocs.log", hint=hint, cwd=CHECKOUT, env=environ)
    return SITE / "index.html"
