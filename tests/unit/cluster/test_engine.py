"""Which engine is used, what is refused, and that stopping ends ours and no other process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from infra.cluster import engine, firewall, oci_shim
from infra.cluster.engine import NO_INSTALL, Engine, EngineError, ensure, parse_version, running, stop, why_not_install
from infra.cluster.state import StateDirectory
from infra.console import Console
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.toolchain.fake_programs import program


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("20.10.24+dfsg1\n", (20, 10, 24)),
        ("29.0.1", (29, 0, 1)),
        ("24.0", (24, 0)),
        ("28.5.2-rc.1", (28, 5, 2)),
        ("", None),
        ("Cannot connect to the Docker daemon", None),
    ],
)
def test_engine_versions_are_read(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("env", "root", "apt", "why"),
    [
        ({}, True, True, None),
        ({NO_INSTALL: ""}, True, True, None),
        ({NO_INSTALL: "1"}, True, True, "NO_INSTALL is set"),
        ({NO_INSTALL: "1"}, False, False, "NO_INSTALL is set"),
        ({}, True, False, "no apt-get"),
        ({}, False, True, "as root"),
    ],
)
def test_packages_are_installed_only_by_root_with_apt_and_unless_refused(
    env: dict[str, str], root: bool, apt: bool, why: str | None
) -> None:
    said = why_not_install(env, root=root, apt=apt, missing="mmdebstrap")
    assert said is None if why is None else (said and why in said and said.startswith("mmdebstrap is needed"))


@pytest.fixture
def command_line(docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """The command line of an engine is installed here."""
    monkeypatch.setattr(engine, "_docker", lambda: docker.path)
    return docker


def test_without_dockers_command_line_there_is_no_engine() -> None:
    assert running() is None


def test_the_machines_engine_is_used_when_it_answers(command_line: FakeDocker) -> None:
    command_line.answers({"version*": "echo 29.0.1"})
    assert running() == Engine(command_line.path, None)


def test_an_engine_that_does_not_answer_is_none(command_line: FakeDocker) -> None:
    command_line.answers({"version*": "echo 'Cannot connect to the Docker daemon' >&2; exit 1"})
    assert running() is None


@pytest.mark.parametrize("answers", [True, False])
def test_our_own_engine_comes_before_the_machines_where_it_answers_on_its_socket(
    command_line: FakeDocker, *, answers: bool
) -> None:
    engine.RUN.mkdir()
    (engine.RUN / "docker.sock").touch()
    command_line.answers({"--host*version*": "echo 20.10.24" if answers else "exit 1", "version*": "echo 29.0.1"})
    assert running() == Engine(command_line.path, f"unix://{engine.RUN / 'docker.sock'}" if answers else None)


@pytest.mark.parametrize(("version", "suits"), [("20.10.0", True), ("20.9.9", False), ("19.03.15", False)])
def test_an_engine_that_is_too_old_is_refused_with_both_versions(
    version: str, suits: bool, command_line: FakeDocker
) -> None:
    command_line.answers({"version*": f"echo {version}"})
    if suits:
        assert running() is not None
    else:
        shown = ".".join(str(int(part)) for part in version.split("."))
        with pytest.raises(EngineError, match=rf"is {shown}, 20\.10 or newer is needed"):
            running()


def test_a_running_engine_is_returned_and_nothing_is_installed_or_started(
    command_line: FakeDocker, state: StateDirectory, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_line.answers({"version*": "echo 29.0.1"})
    monkeypatch.setattr(engine, "install_packages", lambda *_: pytest.fail("installed"))
    monkeypatch.setattr(engine, "_start", lambda *_: pytest.fail("started"))
    assert ensure(state, console, {}) == Engine(command_line.path, None)


def test_without_an_engine_and_with_installing_refused_it_says_so_and_installs_nothing(
    state: StateDirectory, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "install_packages", lambda *_: pytest.fail("installed"))
    with pytest.raises(EngineError, match="NO_INSTALL is set"):
        ensure(state, console, {NO_INSTALL: "1"})


def test_a_daemon_that_only_root_may_start_is_not_started_by_a_user(
    command_line: FakeDocker, state: StateDirectory, console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command_line.answers({"version*": "exit 1"})
    program(tmp_path / "system", "dockerd", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="join the group docker"):
        ensure(state, console, {})


def test_after_installing_an_engine_that_the_package_started_is_used(
    command_line: FakeDocker, state: StateDirectory, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_line.answers({"version*": "exit 1"})
    asked: list[tuple[str, ...]] = []

    def install(packages: tuple[str, ...], *_: object) -> None:
        asked.append(packages)
        command_line.answers({"version*": "echo 20.10.24"})

    monkeypatch.setattr(engine, "install_packages", install)
    monkeypatch.setattr(engine, "why_not_install", lambda *_, **__: None)
    assert ensure(state, console, {}) == Engine(command_line.path, None)
    assert asked == [engine.PACKAGES]


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Rules that the packet filter was brought back to; no other engine runs here."""
    done: list[str] = []
    (tmp_path / "boot").write_text("this boot\n")
    monkeypatch.setattr(firewall, "_BOOT", tmp_path / "boot")
    monkeypatch.setattr(firewall, "_save", lambda: "rules before")
    monkeypatch.setattr(firewall, "_another_engine", lambda: False)
    monkeypatch.setattr(firewall, "undo", lambda before, *, shared: done.append(f"{before.rules}, {shared}"))
    return done


def test_a_daemon_that_dies_at_once_is_reported_with_its_last_words_and_undone(
    *,
    command_line: FakeDocker,
    state: StateDirectory,
    console: Console,
    undone: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    command_line.answers({"*version*": "exit 1"})
    daemon = program(tmp_path / "system", "dockerd", "echo 'failed to mount overlay' >&2; exit 1")
    monkeypatch.setattr(engine, "_dockerd", lambda *_: [str(daemon)])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(EngineError, match="failed to mount overlay") as caught:
        ensure(state, console, {})
    assert str(state.engine / "dockerd.log") in str(caught.value)
    assert undone == ["rules before, False"]
    assert not engine.RUN.exists()
    assert not state.packet_filter.exists()


def test_a_command_for_our_own_engine_names_its_socket(docker: FakeDocker) -> None:
    own = Engine(docker.path, "unix:///run/x.sock")
    assert own.command("ps", Path("/a"))[1:] == ["--host", "unix:///run/x.sock", "ps", "/a"]
    assert own.environment()["DOCKER_HOST"] == "unix:///run/x.sock"
    assert "DOCKER_HOST" not in Engine(docker.path, None).environment()
    assert own.environment()["PATH"].split(os.pathsep)[0] == str(docker.path.parent)


def test_what_docker_says_is_returned_or_raised(machine: Engine, docker: FakeDocker) -> None:
    docker.answers({"ps*": "printf 'one\\ntwo\\n'", "import*": "cat", "network*": "echo 'pool is full' >&2; exit 1"})
    assert machine.run("ps") == "one\ntwo"
    assert machine.run("import", "-", stdin=b"bytes") == "bytes"
    with pytest.raises(EngineError, match=r"^docker network create a: pool is full$"):
        machine.run("network", "create", "a", "--driver", "bridge")
    assert machine.run("network", "create", "a", check=False) == ""


def test_our_daemon_has_its_own_socket_and_no_bridge_and_a_shim_only_where_one_is_needed(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(oci_shim, "missing", lambda _: set())
    plain = engine._dockerd(state, tmp_path / "data")
    at = {word: plain[number + 1] for number, word in enumerate(plain[:-1])}
    assert at["--host"] == f"unix://{engine.RUN / 'docker.sock'}"
    assert at["--bridge"] == "none"
    assert at["--data-root"] == str(tmp_path / "data")
    assert "--default-runtime" not in plain
    monkeypatch.setattr(oci_shim, "missing", lambda _: {"CAP_SYS_RESOURCE"})
    shimmed = engine._dockerd(state, tmp_path / "data")
    assert shimmed[-4:] == ["--add-runtime", f"without={state.engine / 'oci-shim'}", "--default-runtime", "without"]
    program(tmp_path / "bin", "runc", 'echo "runc $*"')
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    ended = subprocess.run(
        [state.engine / "oci-shim", "--version"], env=env, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "runc --version\n"


# Named like its file, as a daemon is; ends when it is told to.
# It collects its child: one that is left behind is there until the machine's first process does.
DAEMON = "trap 'kill $!; wait; exit 0' TERM; echo ready; while :; do sleep 0.1 & wait $!; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@contextmanager
def _daemon(
    state: StateDirectory, path: Path, *, socket: Path | None = None, text: str = DAEMON
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that docker.pid names, and a snapshot that was taken before it began."""
    engine.RUN.mkdir()
    socket = socket or engine.RUN / "docker.sock"
    program(path.parent, path.name, text)
    words = [str(path), "--host", f"unix://{socket}"]
    process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (engine.RUN / "docker.pid").write_text(str(process.pid))
        replace(firewall.Snapshot.take(), engine=firewall.identity(process.pid)).write(state.packet_filter)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_stopping_ends_our_daemon_and_undoes_what_it_changed_once(
    state: StateDirectory, undone: list[str], tmp_path: Path
) -> None:
    with _daemon(state, tmp_path / "system" / "dockerd") as process:
        assert stop(state)
        assert process.poll() is not None
    assert undone == ["rules before, False"]
    assert not engine.RUN.exists()
    assert not stop(state)
    assert len(undone) == 1


@pytest.mark.parametrize("name", ["somebody", "dockerd"])
def test_a_process_that_got_the_daemons_number_is_left_alone_and_so_are_the_rules(
    name: str, state: StateDirectory, undone: list[str], tmp_path: Path
) -> None:
    with _daemon(state, tmp_path / "system" / name, socket=Path("/var/run/docker.sock")) as process:
        assert stop(state)
        assert process.poll() is None
    assert undone == []
    assert not state.packet_filter.exists()


def _snapshot_of_another_engine(state: StateDirectory, process: subprocess.Popen[bytes], _: Path) -> None:
    replace(firewall.Snapshot.take(), engine=(process.pid, 1)).write(state.packet_filter)


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda _, __, boot: boot.write_text("the next boot\n"),
        _snapshot_of_another_engine,
        lambda _, process, __: (process.kill(), process.wait()),
    ],
    ids=["another boot", "another engine", "one that died on its own"],
)
def test_a_snapshot_of_another_time_or_engine_is_thrown_away_and_changes_nothing(
    state: StateDirectory, undone: list[str], tmp_path: Path, meanwhile: Callable[..., object]
) -> None:
    """What one that died had added cannot be told from what others did."""
    with _daemon(state, tmp_path / "system" / "dockerd") as process:
        meanwhile(state, process, tmp_path / "boot")
        assert stop(state)
        assert process.poll() is not None
    assert undone == []
    assert not state.packet_filter.exists()


def test_a_snapshot_of_a_former_version_names_no_boot_and_changes_nothing(
    state: StateDirectory, undone: list[str]
) -> None:
    state.packet_filter.write_text('{"rules": "*filter", "forwarding": "1"}')
    assert stop(state)
    assert undone == []
    assert not state.packet_filter.exists()


def test_a_stop_that_was_interrupted_after_the_engines_end_is_finished_by_the_next(
    state: StateDirectory, undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with _daemon(state, tmp_path / "system" / "dockerd") as process:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(firewall, "settle", interrupted)
            stop(state)
        assert process.poll() is not None
        assert undone == []
        assert stop(state)
    assert undone == ["rules before, False"]


def test_beside_another_engine_only_our_own_rules_are_asked_for(
    state: StateDirectory, undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firewall, "_another_engine", lambda: True)
    with _daemon(state, tmp_path / "system" / "dockerd"):
        assert stop(state)
    assert undone == ["rules before, True"]


def test_a_daemon_that_does_not_end_is_reported_and_its_rules_stay(
    state: StateDirectory, undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "STOP_S", 0.2)
    with _daemon(state, tmp_path / "system" / "dockerd", text=DEAF) as process:
        with pytest.raises(EngineError, match=rf"pid {process.pid}\) does not end"):
            stop(state)
        assert process.poll() is None
    assert undone == []


def test_without_an_engine_of_ours_nothing_is_stopped(state: StateDirectory) -> None:
    assert not stop(state)
