"""Makes mutants with mutmut, but for those that only word an error otherwise, which are counted.

What each mutant changes is written down, by the function that it is in and not by a number: numbers shift with every
edit of the function. It runs in a tree, and imports nothing of what is mutated there.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import libcst as cst
from mutmut import __main__ as mutmut
from mutmut.mutation import file_mutation
from mutmut.mutation.data import LineSpan
from mutmut.mutation.trampoline_templates import CLASS_NAME_SEPARATOR

MADE = "made"
"""Folder of what was made of each file, below the tree."""
ORIGINAL, NUMBER = "__mutmut_orig", "__mutmut_"
_ERRORS = ("Error", "Exception")


class Change(TypedDict):
    """What a mutant changes; `old` and `new` are the lines that differ, without their indentation."""

    name: str
    function: str
    old: str
    new: str
    diff: str


class Sparing(file_mutation.MutationVisitor):
    """Spares the sentences of errors: what is inside of the call of an exception, but for a missing argument.

    With an argument less the call fails, and so the mutant tells whether any test gets there.
    """

    spared = 0
    _calls = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Mutate a node; note that those below an exception's call are its words."""
        goes_on = super().on_visit(node)
        self._calls += makes_error(node)
        return goes_on

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Note the end of the call."""
        super().on_leave(original_node)
        self._calls -= makes_error(original_node)

    def _create_mutations(self, node: cst.CSTNode) -> None:
        before = len(self.mutations)
        super()._create_mutations(node)
        made = self.mutations[before:]
        if self._calls:
            kept = []
        elif makes_error(node):
            kept = [one for one in made if _arguments(one.mutated_node) < _arguments(node)]
        else:
            return
        self.mutations[before:] = kept
        Sparing.spared += len(made) - len(kept)


def makes_error(node: cst.CSTNode) -> bool:
    """Whether a node calls a class of exceptions, as their names tell."""
    if not isinstance(node, cst.Call):
        return False
    called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return isinstance(called, cst.Name) and called.value.endswith(_ERRORS)


def _arguments(node: cst.CSTNode) -> int:
    return len(node.args) if isinstance(node, cst.Call) else 0


def changes(code: str, spans: Mapping[str, LineSpan]) -> list[Change]:
    """Return what each mutant of a mutated file changes, in the order of the file."""
    lines = code.splitlines()
    text = {name: lines[span.start - 1 : span.end] for name, span in spans.items()}
    found: list[Change] = []
    for name, mutated in text.items():
        if name.endswith(ORIGINAL):
            continue
        function, _, _ = name.rpartition(NUMBER)
        original = [line.replace(f"{function}{ORIGINAL}", _plain(function)) for line in text[f"{function}{ORIGINAL}"]]
        changed = [line.replace(name, _plain(function)) for line in mutated]
        # Its first two lines name files.
        diff = [*difflib.unified_diff(original, changed, lineterm="", n=1)][2:]
        found.append(
            {
                "name": name,
                "function": _qualified(function),
                "old": _side(diff, "-"),
                "new": _side(diff, "+"),
                "diff": "\n".join(line for line in diff if not line.startswith("@@")),
            }
        )
    return found


def _side(diff: list[str], sign: str) -> str:
    return "\n".join(line[1:].strip() for line in diff if line.startswith(sign))


def _qualified(function: str) -> str:
    """Return `function` or `Class.method`; mutmut spells them `x_function` and `xǁClassǁmethod`."""
    return function[2:].replace(CLASS_NAME_SEPARATOR, ".")


def _plain(function: str) -> str:
    return _qualified(function).rpartition(".")[2]


def _writing(filename: str, code: str, *more: Any) -> file_mutation.MutatedFile:
    """Make the mutants of a file, and write down what they are."""
    Sparing.spared = 0
    mutated = file_mutation.mutate_file_contents(filename, code, *more)
    made = {"spared": Sparing.spared, "mutants": changes(mutated.code, mutated.line_span_by_function_name)}
    path = Path(MADE) / f"{filename}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1))
    return mutated


def install() -> None:
    """Let mutmut make mutants as it is done here."""
    file_mutation.MutationVisitor = Sparing  # type: ignore[misc]
    mutmut.mutate_file_contents = _writing  # type: ignore[attr-defined, assignment]
