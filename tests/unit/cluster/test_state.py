"""The state directory: private, never overwritten when it matters, and of use in a plain shell."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from infra.cluster.state import (
    StateDirectory,
    StateError,
    engine_data,
    link_programs,
    shell_exports,
    state_directory,
    write_launcher,
)
from infra.toolchain.cache import cache_root
from tests.unit.toolchain.fake_programs import program


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"EFFECTIVELY_ONCE_STATE": "/s", "XDG_STATE_HOME": "/x"}, Path("/s")),
        ({"XDG_STATE_HOME": "/x"}, Path("/x/effectively-once")),
        ({"XDG_STATE_HOME": "relative"}, Path.home() / ".local/state/effectively-once"),
        ({}, Path.home() / ".local/state/effectively-once"),
    ],
)
def test_the_place_follows_the_environment(env: dict[str, str], root: Path) -> None:
    assert state_directory(env).root == root


def test_the_state_is_not_in_the_cache_that_may_be_deleted_and_the_engines_layers_are() -> None:
    assert not state_directory({}).root.is_relative_to(cache_root({}))
    assert engine_data(Path("/cache")) == Path("/cache/engine")


def test_its_folders_are_private(state: StateDirectory) -> None:
    for path in (state.root, state.backend, state.programs, state.engine):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_passphrase_is_made_once_and_only_its_owner_reads_it(state: StateDirectory) -> None:
    state.ensure_passphrase()
    made = state.passphrase.read_text()
    assert len(made.strip()) >= 40
    assert stat.S_IMODE(state.passphrase.stat().st_mode) == 0o600
    state.ensure_passphrase()
    assert state.passphrase.read_text() == made
    other = StateDirectory(state.root / "other")
    other.make()
    other.ensure_passphrase()
    assert other.passphrase.read_text() != made


def test_a_new_passphrase_is_refused_while_there_is_state_that_the_old_one_encrypted(state: StateDirectory) -> None:
    state.ensure_passphrase()
    stack = state.backend / ".pulumi" / "stacks" / "effectively-once" / "laptop.json"
    stack.parent.mkdir(parents=True)
    stack.write_text("{}")
    state.ensure_passphrase()
    state.passphrase.unlink()
    with pytest.raises(StateError, match="make down FORGET=1") as caught:
        state.ensure_passphrase()
    assert str(state.passphrase) in str(caught.value)
    assert not state.passphrase.exists()
    stack.unlink()
    state.ensure_passphrase()
    assert state.passphrase.is_file()


def test_stacks_of_every_project_are_seen_compressed_ones_too_and_what_a_removed_one_left_is_none(
    state: StateDirectory,
) -> None:
    assert state.stacks() == []
    for name in (
        "effectively-once/laptop.json",
        "effectively-once/laptop.json.bak",
        "a/team.json.gz",
        "a/old.json.bak",
    ):
        path = state.backend / ".pulumi" / "stacks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert state.stacks() == ["a/team", "effectively-once/laptop"]
    with pytest.raises(StateError, match="a/team, effectively-once/laptop"):
        state.ensure_passphrase()


def _in_shell(exports: str, script: str, **env: str) -> str:
    ended = subprocess.run(
        ["/bin/sh", "-euc", f'eval "$1"; {script}', "sh", exports],
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout


def test_exports_reach_the_children_of_a_real_shell_whatever_is_in_them() -> None:
    odd = {"A": "two words", "B": 'it\'s $HOME `id` "x" \\ ;', "C": "", "D": "line\nbreak", "PATH": "/with space/bin"}
    out = _in_shell(shell_exports(odd), "env -0")
    seen = dict(item.split("=", 1) for item in out.split("\0") if item)
    assert {name: seen[name] for name in ("A", "B", "C", "D")} == {name: odd[name] for name in ("A", "B", "C", "D")}
    assert seen["PATH"] == "/with space/bin:/usr/bin:/bin"


def test_after_eval_a_plain_program_of_ours_is_found_first(state: StateDirectory, tmp_path: Path) -> None:
    link_programs(state, {"kubectl": program(tmp_path / "built", "kubectl", 'echo "ours $KUBECONFIG"')})
    other = program(tmp_path / "elsewhere", "kubectl", "echo theirs").parent
    said = _in_shell(shell_exports(state.environment()), "kubectl", PATH=f"{other}:/usr/bin:/bin")
    assert said == f"ours {state.kubeconfig}\n"


def test_the_environment_names_an_engine_only_when_it_is_our_own(state: StateDirectory) -> None:
    assert "DOCKER_HOST" not in state.environment()
    assert state.environment("unix:///run/x.sock")["DOCKER_HOST"] == "unix:///run/x.sock"


def test_no_secret_is_in_the_environment(state: StateDirectory) -> None:
    state.ensure_passphrase()
    secret = state.passphrase.read_text().strip()
    assert secret not in shell_exports(state.environment())
    assert state.environment()["PULUMI_CONFIG_PASSPHRASE_FILE"] == str(state.passphrase)


def test_a_child_process_keeps_this_ones_environment_and_finds_our_programs_first(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    env = state.process_environment()
    assert env["PATH"] == f"{state.programs}:/usr/bin:/bin"
    assert env["HTTPS_PROXY"] == "proxy:3128"


def test_after_eval_a_program_is_not_looked_for_among_our_own_links(state: StateDirectory) -> None:
    path = f"{state.programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    assert state.foreign_path({"PATH": path}) == f"/usr/bin{os.pathsep}/bin"
    assert state.foreign_path({"PATH": "/usr/bin"}) == "/usr/bin"


def test_the_folder_of_programs_holds_exactly_the_ones_that_are_named(state: StateDirectory, tmp_path: Path) -> None:
    one, two = program(tmp_path / "one", "kind", ""), program(tmp_path / "two", "kind", "")
    link_programs(state, {"kind": one, "helm": one})
    link_programs(state, {"kind": two})
    assert {path.name: path.readlink() for path in state.programs.iterdir()} == {"kind": two}


def test_what_is_kept_stays_while_it_leads_somewhere(state: StateDirectory, tmp_path: Path) -> None:
    """Images are built for another cluster: kind of the one here is needed for its end."""
    one = program(tmp_path / "one", "kind", "")
    link_programs(state, {"kind": one, "helm": tmp_path / "gone", "etcd": one})
    link_programs(state, {"kubectl": one}, {"kind", "helm"})
    assert {path.name for path in state.programs.iterdir()} == {"kind", "kubectl"}


def test_a_link_that_is_right_is_left_alone_and_a_dangling_one_replaced(state: StateDirectory, tmp_path: Path) -> None:
    gone, there = tmp_path / "gone" / "kind", program(tmp_path / "there", "kind", "")
    link_programs(state, {"kind": gone})
    link_programs(state, {"kind": there})
    before = (state.programs / "kind").lstat()
    link_programs(state, {"kind": there})
    after = (state.programs / "kind").lstat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert (state.programs / "kind").readlink() == there


def test_a_launcher_runs_a_module_of_its_checkout_from_anywhere(state: StateDirectory, tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    (checkout / "thing").mkdir(parents=True)
    (checkout / "thing" / "__init__.py").touch()
    (checkout / "thing" / "host.py").write_text("import os, sys; print(sys.argv[1:], os.environ['PYTHONPATH'])")
    path = write_launcher(state, "host", "thing.host", checkout)
    for given, seen in ((None, str(checkout)), ("/more", f"{checkout}:/more")):
        env = {"PATH": "/usr/bin:/bin", **({"PYTHONPATH": given} if given else {})}
        words = [str(path), "one", "two words"]
        ended = subprocess.run(words, env=env, cwd="/", capture_output=True, text=True, check=True)
        assert ended.stdout == f"['one', 'two words'] {seen}\n"


def test_a_users_own_cluster_and_stack_count_where_make_up_made_none(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/me/config")
    monkeypatch.setenv("PULUMI_STACK", "team")
    assert state.process_environment()["KUBECONFIG"] == "/home/me/config"
    assert state.process_environment()["PULUMI_STACK"] == "team"
    state.record.write_text("{}")
    assert state.process_environment()["KUBECONFIG"] == str(state.kubeconfig)
    assert state.process_environment()["PULUMI_STACK"] == "laptop"


@pytest.mark.parametrize("made", [True, False], ids=["a cluster of ours", "none"])
@pytest.mark.parametrize("home", [None, "/home/me/pulumi"])
def test_a_users_logins_and_plugins_stay_where_they_are(
    *, made: bool, home: str | None, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made:
        state.record.write_text("{}")
    if home is None:
        monkeypatch.delenv("PULUMI_HOME", raising=False)
    else:
        monkeypatch.setenv("PULUMI_HOME", home)
    assert state.process_environment().get("PULUMI_HOME") == home
    assert "PULUMI_HOME" not in state.environment()
    # Without its own backend ours would be whatever the user is logged into.
    assert state.environment()["PULUMI_BACKEND_URL"] == f"file://{state.backend}"
