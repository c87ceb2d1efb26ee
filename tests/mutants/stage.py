"""Plays mutants with mutmut, as a program that is started in a tree: what mutmut does not do, and its command line.

The correct product is played once more in a copy of the process as each mutant gets one. And a function that is called
while its module is imported is played with modules that are imported anew: mutmut would ask what was computed before.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation import trampoline
from mutmut.mutation.data import SourceFileMutationData
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import mangled_name_from_mutant_name
from mutmut.workers.isolation import MutantRunner, run_in_fork, run_in_fork_with_result

from tests.mutants import maker

AT_IMPORT = set[str]()
"""Functions that are called while modules are imported, as mutmut spells them."""
_forced_fail, _run_tests = mutmut.run_forced_fail_test, PytestRunner.run_tests
_collect = mutmut.collect_source_file_mutation_data


def forget(below: Path) -> None:
    """Forget modules whose files are below a folder, but for the program; the next import reads them again."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and below in Path(file).parents:
            del sys.modules[name]


def _copies() -> Path:
    return config().resolved_mutated_source_paths[0].parent


def _called_at_import() -> set[str]:
    """Import what is mutated, in a process of its own, and note which functions are called."""
    forget(_copies())
    trampoline.set_mutant_under_test("stats")
    state()._stats.clear()
    for path in walk_mutatable_files():
        importlib.import_module(".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__"))
    return {*state()._stats}


def _but_for_killed(**asked: Any) -> Any:
    """Collect mutants as mutmut does, but end those first that tests have killed which are not in this tree.

    It plays what has no end.
    """
    killed = {*json.loads(Path("killed.json").read_text())}
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        data.exit_code_by_key |= dict.fromkeys(killed & data.exit_code_by_key.keys(), 1)
        data.save()
    return _collect(**asked)


def _with_control(runner: MutantRunner) -> None:
    """Let the tests fail on purpose, as mutmut does; then play them without a mutant once more.

    Each mutant is played in a copy of the process as it is now: where the correct product fails, all would be killed.
    """
    _forced_fail(runner)
    trampoline.set_mutant_under_test("")
    if run_in_fork(_control, runner) != 0:
        raise SystemExit("the correct product fails where the mutants would be played")
    AT_IMPORT.update(run_in_fork_with_result(_called_at_import))
    for function in AT_IMPORT:
        # Any test may depend on it, and not only the one before which it was called.
        state().tests_by_mangled_function_name[function] = {*state().duration_by_test}


def _control(runner: MutantRunner) -> int:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return runner.run_clean_tests([])


def _anew(runner: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
    if mutant_name and mangled_name_from_mutant_name(mutant_name) in AT_IMPORT:
        forget(_copies())
    return _run_tests(runner, mutant_name=mutant_name, tests=tests)


def main() -> None:
    """Do what mutmut's own command line would."""
    maker.install()
    mutmut.collect_source_file_mutation_data = _but_for_killed
    mutmut.run_forced_fail_test = _with_control
    PytestRunner.run_tests = _anew  # type: ignore[method-assign, assignment]
    # The tests are to be those beside the mutants, and not those that this program is from.
    forget(Path.cwd())
    mutmut.cli()


if __name__ == "__main__":
    main()
