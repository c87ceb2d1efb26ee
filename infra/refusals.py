"""`python -m infra.refusals`: write the page of every named error of the library, and what to do about each.

An error says what, where and what to do. The page is what the library's source has for the first and the last.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT

LIBRARY = CHECKOUT / "pipelines" / "src" / "effectively_once"
PAGE = CHECKOUT / "docs" / "reference" / "refusals.md"
BASE = "PipelineError"
_ANY = "…"
_HEAD = """\
# Refusals: every named error, and what to do

A driver or command that cannot go on prints one line and ends with the code of the error:
`Name: what happened (where). What to do.` Here is each of them, by exit code, as the library's
source has it; `…` stands for what differs from case to case. `python -m infra.refusals` writes this
page.

Whatever it is, nothing that is published is lost, and nothing half-done is published: what was
declared stays declared, and the next start goes on from there. So the way on is always to do what
the line says, then to start the pipeline again. `effectively-once inspect` says beforehand whether
a driver would start. A record that is refused stops nothing:
[refused-records.md](refused-records.md) has those.
"""


@dataclass(frozen=True, order=True, slots=True)
class Kind:
    """A class of errors: its exit code, name, and what its docstring says."""

    code: int
    name: str
    says: str


@dataclass(frozen=True, order=True, slots=True)
class Refusal:
    """What one place of the source raises."""

    kind: Kind
    what: str
    todo: str


def kinds(trees: Mapping[Path, ast.Module]) -> dict[str, Kind]:
    """Every class of named errors; one without a code of its own has that of its base."""
    classes = {node.name: node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)}
    found: dict[str, Kind] = {}

    def code(name: str) -> int | None:
        node = classes.get(name)
        for line in node.body if node else ():
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "exit_code":
                return int(ast.literal_eval(line.value))
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)] if node else []
        return next((known for base in bases if (known := code(base)) is not None), None)

    for name, node in classes.items():
        number = code(name)
        if number is not None and name != BASE:
            says = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
            found[name] = Kind(number, name, says)
    return found


def refusals() -> list[Refusal]:
    """All that the library raises by name, in order."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(LIBRARY.rglob("*.py"))}
    known, texts = kinds(trees), {name: text for tree in trees.values() for name, text in _constants(tree)}
    found = {one for tree in trees.values() for one in _find_raised(tree, known, texts)}
    # Those without a code of their own are a gateway's: its caller gets them, no process ends with them.
    return sorted(found, key=lambda one: (one.kind.code == 1, one))


def page() -> str:
    """Return the page."""
    parts, last = [_HEAD], None
    for one in refusals():
        if one.kind != last:
            head = f"## {one.kind.code} {one.kind.name}" if one.kind.code > 1 else f"## Of a gateway: {one.kind.name}"
            parts.append(f"\n{head}\n\n{one.kind.says}\n\n| what happened | what to do |\n| -- | -- |\n")
            last = one.kind
        parts.append(f"| {_cell(one.what)} | {_cell(one.todo)} |\n")
    return "".join(parts)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote: {PAGE.relative_to(CHECKOUT)}\n")
    return 0


def _find_raised(tree: ast.Module, known: Mapping[str, Kind], texts: Mapping[str, str]) -> Iterator[Refusal]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 3:
            kind = known.get(node.func.id)
            if kind is not None:
                what, _, todo = (_text(argument, texts) for argument in node.args)
                yield Refusal(kind, what, todo)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Texts that a module gives names to."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = _text(node.value, {})
            if text != _ANY:
                yield node.targets[0].id, text


def _text(node: ast.expr, texts: Mapping[str, str]) -> str:
    """Return a text as far as the source tells it."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(
                _text(part.value if isinstance(part, ast.FormattedValue) else part, texts) for part in values
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, texts) + _text(right, texts)
        case ast.IfExp(body=body, orelse=orelse):
            return " / ".join(part for part in (_text(body, texts), _text(orelse, texts)) if part)
        case ast.Name(id=name):
            return texts.get(name, _ANY)
    return _ANY


def _cell(text: str) -> str:
    """Return a text as a cell of a table."""
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
    return text if text.strip(_ANY + " ") else "as the line says"


if __name__ == "__main__":
    sys.exit(main())
