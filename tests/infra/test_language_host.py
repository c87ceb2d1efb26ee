"""Our language host speaks with the engine as Pulumi's own does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from infra.language_host import entry_point

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S = 30.0  # imports of pulumi and gRPC on a loaded machine
EXIT_S = 20.0


@pytest.fixture
def host() -> Iterator[subprocess.Popen[str]]:
    """Start the host as the launcher on PATH does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.language_host", "127.0.0.1:1"],
        cwd="/",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate(timeout=EXIT_S)


def calls(process: subprocess.Popen[str]) -> language_pb2_grpc.LanguageRuntimeStub:
    """Read the port and return what calls the host there."""
    assert process.stdout is not None
    port = int(process.stdout.readline())
    return language_pb2_grpc.LanguageRuntimeStub(grpc.insecure_channel(f"127.0.0.1:{port}"))


def test_the_host_says_who_it_is(host: subprocess.Popen[str]) -> None:
    stub = calls(host)
    stub.Handshake(language_pb2.LanguageHandshakeRequest(engine_address="127.0.0.1:1"), timeout=ANSWER_S)
    assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=ANSWER_S).version.startswith("3.")
    assert not stub.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest(), timeout=ANSWER_S).packages
    assert not stub.RuntimeOptionsPrompts(language_pb2.RuntimeOptionsRequest(), timeout=ANSWER_S).prompts
    assert not [*stub.InstallDependencies(language_pb2.InstallDependenciesRequest(), timeout=ANSWER_S)]
    found = stub.GetProgramDependencies(language_pb2.GetProgramDependenciesRequest(), timeout=ANSWER_S).dependencies
    assert {one.name for one in found} == {"pulumi", "pulumi-kubernetes"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_host_ends_quietly_when_told(host: subprocess.Popen[str], number: signal.Signals) -> None:
    calls(host).GetPluginInfo(empty_pb2.Empty(), timeout=ANSWER_S)
    host.send_signal(number)
    rest, errors = host.communicate(timeout=EXIT_S)
    assert (host.returncode, rest, errors) == (0, "", "")


def test_cancel_ends_the_host(host: subprocess.Popen[str]) -> None:
    calls(host).Cancel(empty_pb2.Empty(), timeout=ANSWER_S)
    assert host.wait(timeout=EXIT_S) == 0


def test_the_host_does_not_outlive_who_started_it(tmp_path: Path) -> None:
    """A killed `pulumi` leaves no process behind: the pipe that only the host still holds is closed."""
    script = tmp_path / "start.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'infra.language_host'], stdout=1)\n"
        "time.sleep(600)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, str(script)], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    calls(starter).GetPluginInfo(empty_pb2.Empty(), timeout=ANSWER_S)
    starter.kill()
    starter.communicate(timeout=EXIT_S)  # returns when the last holder of the pipe is gone


def test_a_program_that_is_not_there_is_named_in_the_answer(host: subprocess.Popen[str], tmp_path: Path) -> None:
    info = language_pb2.ProgramInfo(root_directory=str(tmp_path), program_directory=str(tmp_path), entry_point="x")
    answer = calls(host).Run(language_pb2.RunRequest(info=info, pwd=str(tmp_path)), timeout=ANSWER_S)
    assert str(tmp_path / "x") in answer.error
    assert "Pulumi.yaml" in answer.error


def test_a_folder_stands_for_its_main_module() -> None:
    assert entry_point(str(ROOT / "infra"), ".") == ROOT / "infra" / "__main__.py"
    assert entry_point(str(ROOT / "infra"), "") == ROOT / "infra" / "__main__.py"
    assert entry_point(str(ROOT / "infra"), "cli.py") == ROOT / "infra" / "cli.py"
