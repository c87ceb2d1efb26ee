"""Errors of the cluster's commands are one line to the user, whichever module they come from."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from infra import cli, command_line
from infra.cluster import access, engine
from infra.cluster.platform import AccessError
from infra.cluster.state import state_directory
from infra.errors import UserError
from infra.operate.rows import Row
from infra.operate.status import table
from tests.cli import demo, develop, prove
from tests.cli.app import app
from tests.experiments import command as experiments
from tests.experiments.two_ways import plan as two_ways
from tests.harness.campaigns import cluster, embedded
from tests.harness.campaigns.options import Campaign
from tests.harness.soak import __main__ as soak
from tests.harness.stack.deployed import Found
from tests.mutants import run as mutants
from tests.tampered import run as tampered
from tests.unit.command import call

ROOT = Path(cli.__file__).parents[1]


def test_an_error_that_a_user_can_act_on_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(**_: object) -> None:
        raise UserError("the port is taken; stop that")

    assert command_line.run(fail) == 2
    assert capsys.readouterr().err == "✗ the port is taken; stop that\n"


def test_an_error_that_nobody_foresaw_keeps_its_traceback() -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command_line.run(fail)


def test_a_table_that_goes_into_a_file_is_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = command_line.console_out()
    assert screen.width == 160
    found = [Row("kafka", ready=False, state="0/1 pod; kafka-0: pending: " + "why " * 12)]
    screen.print(table(found, datetime.now(UTC)))
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert command_line.console_out().width == 40


def test_looking_at_a_cluster_asks_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EFFECTIVELY_ONCE_STATE", str(tmp_path))
    monkeypatch.setattr(engine, "running", lambda: pytest.fail("asked"))
    given: dict[str, object] = {}
    monkeypatch.setattr(access, "load_access", lambda env, state, **how: given.update(how, env=env, state=state))
    cli._access(assume=True)
    assert (given["state"], given["assume"]) == (tmp_path, True)
    assert cast(dict[str, str], given["env"])["KUBECONFIG"] == str(tmp_path / "kubeconfig")


FOLDERS = ("cli", "harness", "experiments", "acceptance", "bench", "fuzz", "planted", "mutants", "tampered")
BROKEN_OFF = "ends a play: the run says so, and is judged by what there is"
MISSED = "ends a fault: it missed, and is tried again"
INTERNAL = {
    "infra/bootstrap.py BootstrapError": "there are no packages yet: it shows its line itself",
    "infra/settings/refused.py SettingsError": "of the Pulumi program, which shows its lines itself",
    "tests/harness/adapters/drivers.py NoProcessError": MISSED,
    "tests/harness/adapters/events.py WaitTimedOutError": BROKEN_OFF,
    "tests/harness/adapters/store_connection.py _ClientGoneError": "ends a connection",
    "tests/harness/adapters/topics.py ReadStalledError": BROKEN_OFF,
    "tests/harness/adapters/transactions.py ToolFailedError": MISSED,
    "tests/harness/definition/declared.py NotJudgedError": "of a process of its own, whose last words are a RunError",
    "tests/harness/pack/template.py UnfitError": "a line is packed as it is",
    "tests/experiments/card_ledger/payments/book.py RefusedError": "an answer of the payment service",
    "tests/harness/play/way_out.py NoWayOutError": BROKEN_OFF,
    "tests/harness/workload/errors.py SendStalled": BROKEN_OFF,
}
"""Errors that no command shows, and what becomes of each."""


def errors_of_commands() -> dict[str, set[str]]:
    """Every class of errors in what commands run, by file and name, with its bases."""
    folders = [ROOT / "infra", *(ROOT / "tests" / name for name in FOLDERS)]
    classes = {
        f"{path.relative_to(ROOT)} {node.name}": {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for folder in folders
        for path in folder.rglob("*.py")
        if not path.name.startswith("test_")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    return {
        name: bases for name, bases in classes.items() if any(base.endswith(("Error", "Exception")) for base in bases)
    }


def test_no_error_that_a_command_can_show_ends_as_a_traceback() -> None:
    """Who adds a class of errors derives it from `UserError`, or says here what becomes of it."""
    found, users = errors_of_commands(), {"UserError"}
    for _ in found:
        users |= {name.split()[1] for name, bases in found.items() if bases & users}
    assert len(users) > 30
    assert {name for name, bases in found.items() if not bases & users} - {"infra/errors.py UserError"} == {*INTERNAL}


def test_modules_that_a_command_imports_late_have_what_it_takes_from_them() -> None:
    late = [
        found
        for module in (cli, demo, develop, prove)
        for found in re.findall(r"^ +from ([\w.]+) import (\w+)", Path(module.__file__ or "").read_text(), re.MULTILINE)
    ]
    assert len(late) > 20
    for module, name in late:
        has = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
        assert has, f"{module}.{name}"


def test_every_command_has_its_target_in_the_makefile() -> None:
    targets = (ROOT / "Makefile").read_text()
    given = [(one.name, one.callback) for one in (*app.registered_commands, *cli.app.registered_commands)]
    commands = {name or callback.__name__ for name, callback in given if callback}
    assert len(commands) > 25
    # `prepare` is for the bootstrap and for CI; `check` is reached through `judge`.
    for name in commands - {"prepare"}:
        assert re.search(rf"\$\(CLI\) {name}\b", targets), name


WRONG = [
    (["up", "--profile", "production"], "has no cluster of its own"),
    (["demo", "--key", "user"], "KEY and TIME name columns of a file: give INPUT as well"),
    (["demo", "--input", "no.jsonl", "--records", "5000"], "--records is of the seeded stream"),
    (["demo", "--input", "no.jsonl", "--key", "user", "--time", "at"], "no.jsonl"),
    (["chaos", "--key", "user"], "KEY and TIME name columns of a file: give INPUT as well"),
    (["chaos", "--time=at"], "KEY and TIME name columns of a file: give INPUT as well"),
    (["chaos", "--faults", "no-such"], "no-such"),
    (["chaos", "--job", "a.b", "--input", "no.jsonl", "--key", "user", "--time", "at"], "no.jsonl"),
    (["chaos", "--on", "cluster", "--job", "a.b", "--input", "no.jsonl", "--key", "user", "--time", "at"], "no.jsonl"),
    (["chaos", "--on", "nowhere", "--job", "a.b"], "'nowhere' is not one of 'embedded', 'cluster'"),
    (["acceptance", "--suite", "no-such"], "no-such"),
    (["acceptance", "--job", "no-such"], "no-such"),
    (["run", "--at", "no-such"], "no-such/settings.json cannot be read"),
    (["images", "--arch", "sparc"], "'sparc' is not one of 'amd64', 'arm64' (ARCH=)"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_what_cannot_be_done_is_refused_before_anything_takes_a_minute(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (cli, demo, embedded, cluster):
        monkeypatch.setattr(module, "prepare", lambda *_: pytest.fail("prepared"))
    monkeypatch.setattr(Found, "here", lambda *_: pytest.fail("looked for a cluster"))
    assert call(monkeypatch, *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("✗ ")
    assert says in line


@pytest.mark.parametrize(
    "words",
    [
        ["chaos", "--sed", "1"],
        ["soak", "--sed"],
        ["report", "--kep"],
        ["two-ways", "--kil"],
        ["planted", "--onl"],
        ["mutants", "--onl"],
        ["tampered", "--onl"],
    ],
)
def test_a_word_that_there_is_not_is_refused_before_anything_takes_a_minute(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"✗ No such option: {words[1]}")
    assert "--help` shows what there is" in line


HELP = {
    "chaos": [*Campaign.model_fields],
    "soak": [one.name for one in fields(soak.Asked)],
    "planted": ["only", "run", "out", "garden", "list"],
    "mutants": [one.name for one in fields(mutants.Asked)],
    "tampered": [one.name for one in fields(tampered.Asked)],
    "two-ways": [one.name for one in (*fields(experiments.Asked), *fields(two_ways.Plan))],
    "report evidence": ["to", "any_verdict"],
    "report index": ["kept"],
}


@pytest.mark.parametrize("command", HELP)
def test_help_knows_every_option(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert call(monkeypatch, *command.split(), "--help") == 0
    shown = {*re.findall(r"--[a-z-]+", capsys.readouterr().out)}
    missing = {f"--{name.replace('_', '-')}" for name in HELP[command]} - shown
    assert missing == ({"--controls"} if command == "chaos" else set())
    assert ("--no-controls" in shown) == (command == "chaos")


def make(*words: str) -> str:
    done = subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize("target", ["demo", "chaos"])
def test_make_hands_on_key_and_time_without_a_file(target: str) -> None:
    """That they are of no use alone is for the command to say."""
    assert '--key "user" --time "at"' in make("-n", target, "KEY=user", "TIME=at")
    assert "--key" not in make("-n", target)


def test_the_help_of_make_shows_a_line_that_a_shell_takes() -> None:
    shown = make("help")
    assert 'eval "$(make env)"' in shown
    assert "$$" not in shown


def test_no_unit_test_finds_the_cluster_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_directory()
    assert "no-cluster" in str(state.root)
    with pytest.raises(AccessError):
        access.load_access(state.process_environment(), state.root)
