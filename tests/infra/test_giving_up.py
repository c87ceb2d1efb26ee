"""An update that waits for an image which never comes is ended within seconds, by the pod's own words."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from infra.cluster.api import Lines
from infra.operate import update
from infra.operate.objects import Pod
from infra.operate.pulling import hopeless, watch

OURS, PUSHED, THEIRS = "effectively-once-kafka:01", "registry.example/effectively-once-kafka:01", "own/clicks:7"
NO_SUCH = "failed to pull and unpack image: registry.example/x: not found"
NO_RIGHT = "pull access denied, repository does not exist or may require authorization"
SLOW = "failed to do request: dial tcp 10.0.0.1:443: i/o timeout"


def pod(name: str, image: str, reason: str, message: str, **metadata: object) -> dict[str, Any]:
    status = {"name": "main", "image": image, "state": {"waiting": {"reason": reason, "message": message}}}
    return {
        "metadata": {"name": name, "namespace": "platform", "uid": f"uid-{name}", **metadata},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    }


class Cluster:
    """Answers each look with the next list of pods, and goes on with the last."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self.looks, self.number = looks, 0
        self.often = threading.Event()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.number += 1
        if self.number > len(self.looks) + 3:
            self.often.set()
        return {"items": self.looks[min(self.number, len(self.looks)) - 1]}

    def text(self, path: str, **query: str) -> str:
        raise NotImplementedError

    def follow(self, path: str, **query: str) -> Lines:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("image", "reason", "message", "never"),
    [
        (THEIRS, "ErrImagePull", NO_SUCH, True),
        (PUSHED, "ImagePullBackOff", f"Back-off pulling image: ErrImagePull: {NO_RIGHT}", True),
        (THEIRS, "ErrImageNeverPull", "", True),
        (THEIRS, "InvalidImageName", "", True),
        # Nobody but `make up` brings it, and that was before.
        (OURS, "ErrImagePull", SLOW, True),
        # A registry that is down for a moment is asked again by the kubelet.
        (THEIRS, "ErrImagePull", SLOW, False),
        (PUSHED, "ImagePullBackOff", "Back-off pulling image", False),
        (OURS, "ContainerCreating", "", False),
    ],
)
def test_only_what_waiting_cannot_mend_is_hopeless(image: str, reason: str, message: str, never: bool) -> None:
    found = Pod.model_validate(pod("kafka-0", image, reason, message))
    assert list(hopeless([found], ())) == ([image] if never else [])
    # It may wait for the kubelet's next try at what is there by now.
    assert list(hopeless([found], {"uid-kafka-0"})) == []


def test_a_pod_that_goes_is_no_reason() -> None:
    found = Pod.model_validate(pod("x", OURS, "ErrImagePull", "", deletionTimestamp="2026-11-20T00:00:00Z"))
    assert list(hopeless([found], ())) == []


def test_the_update_is_given_up_at_the_first_hopeless_pod_with_its_words_and_the_command() -> None:
    slow, lost = pod("a", THEIRS, "ErrImagePull", SLOW), pod("kafka-0", OURS, "ErrImagePull", NO_SUCH)
    said: list[str] = []
    given_up: list[str] = []
    done = threading.Event()

    def give_up(line: str) -> None:
        given_up.append(line)
        done.set()

    watch(lambda: Cluster([], [slow], [slow, lost]), ["platform"], said.append, 0.01, give_up=give_up)
    assert done.wait(20)
    (line,) = said
    assert line.startswith(f"pod platform/a waits for image {THEIRS}: ErrImagePull")
    (line,) = given_up
    assert line.startswith(f"pod platform/kafka-0 waits for image {OURS}: ErrImagePull ({NO_SUCH}). ")
    assert "`make up` builds and loads it" in line


def test_pods_of_before_are_told_and_waited_for() -> None:
    cluster, said, given_up = Cluster([pod("kafka-0", OURS, "ErrImagePull", NO_SUCH)]), [], []  # type: ignore[var-annotated]
    ended = watch(lambda: cluster, None, said.append, 0.01, give_up=given_up.append, before={"uid-kafka-0"})
    assert cluster.often.wait(20)
    ended.set()
    assert (len(said), given_up) == (1, [])


def test_the_program_ends_the_update_as_an_interrupt_does(tmp_path: Path) -> None:
    """Through whatever stands between it and `pulumi`; a shell plays the command."""
    pulumi = tmp_path / "pulumi"
    program = f"{sys.executable} -c 'from infra.operate import update; update.cancel()'"
    pulumi.write_text(f"#!/bin/sh\ntrap 'echo interrupted; exit 7' INT\nsh -c \"{program}; true\" &\nwait\nexit 1\n")
    pulumi.chmod(0o755)
    ended = subprocess.run(
        [pulumi], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout.strip(), ended.returncode) == ("interrupted", 7), ended.stderr


def test_without_such_a_command_nothing_is_struck() -> None:
    assert update.cancel() is False
