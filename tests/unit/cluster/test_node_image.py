"""kind's published image is used where it is to be had; where not, little time is lost, once a day."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from infra.cluster.engine import Engine, EngineError
from infra.cluster.lifecycle import node_image
from infra.cluster.lifecycle.node_image import PUBLISHED, SETTING, VERSION
from infra.cluster.state import StateDirectory
from infra.console import Console
from tests.unit.cluster.fake_engine import FakeDocker

THERE = {"image?inspect*": "echo sha256:1"}
GOOD = {"run*": f"echo {VERSION}"}
COMES = {"pull*": "echo 'Pulling from kindest/node'"}
NO_NAME = {"pull*": "echo 'lookup registry: no such host' >&2; exit 1"}
OWN_NAME = "registry.example/team/node:7"


@pytest.fixture
def asked(docker: FakeDocker, machine: Engine, state: StateDirectory, console: Console) -> Asked:
    return Asked(docker, machine, state.refusal, console)


class Asked:
    """The function on a fake engine."""

    def __init__(self, docker: FakeDocker, engine: Engine, refusal: Path, console: Console) -> None:
        """`refusal` is the file that remembers."""
        self._docker, self._engine, self.refusal, self._console = docker, engine, refusal, console

    def __call__(self, setting: str | None, answers: dict[str, str]) -> str | None:
        """What is decided when the engine answers so."""
        self._docker.answers(answers)
        env = {} if setting is None else {SETTING: setting}
        return node_image.find_published(self._engine, self.refusal, self._console, env)

    @property
    def pulls(self) -> list[str]:
        """Images that the engine was asked to pull."""
        return [call.removeprefix("pull ") for call in self._docker.calls if call.startswith("pull ")]


def test_it_is_named_by_our_version_and_no_registry() -> None:
    assert f"kindest/node:{VERSION}" == PUBLISHED
    assert "." not in PUBLISHED.split("/", maxsplit=1)[0]


@pytest.mark.parametrize("setting", [None, "", "auto"])
def test_an_image_that_can_be_pulled_is_used(setting: str | None, asked: Asked, said: io.StringIO) -> None:
    assert asked(setting, COMES | GOOD) == PUBLISHED
    assert asked.pulls == [PUBLISHED]
    assert f"node image: {PUBLISHED}, published by kind" in said.getvalue()
    assert not asked.refusal.exists()


@pytest.mark.parametrize("setting", [None, OWN_NAME])
def test_an_image_that_is_there_is_not_pulled(setting: str | None, asked: Asked) -> None:
    assert asked(setting, THERE | GOOD | NO_NAME) == (setting or PUBLISHED)
    assert asked.pulls == []


def test_who_wants_their_own_asks_nobody(asked: Asked, docker: FakeDocker) -> None:
    assert asked("own", THERE | GOOD) is None
    assert docker.calls == []


def test_on_cgroup_v1_kinds_image_is_not_asked_for_but_may_be_named(asked: Asked, said: io.StringIO) -> None:
    first = {"info*CgroupVersion*": "echo 1"}
    assert asked(None, first | THERE | GOOD) is None
    assert asked.pulls == []
    assert "cgroup v1" in said.getvalue()
    assert not asked.refusal.exists()
    assert asked(PUBLISHED, first | THERE | GOOD) == PUBLISHED
    assert asked(None, {"info*CgroupVersion*": "echo 2"} | THERE | GOOD) == PUBLISHED


def test_a_refusal_is_told_and_remembered_for_a_day(asked: Asked, said: io.StringIO) -> None:
    assert asked(None, NO_NAME) is None
    assert asked(None, NO_NAME) is None
    assert asked.pulls == [PUBLISHED]
    assert said.getvalue().count("lookup registry: no such host") == 2
    assert f"{SETTING}={PUBLISHED} asks again" in said.getvalue()
    kept = json.loads(asked.refusal.read_text())
    asked.refusal.write_text(json.dumps(kept | {"at": time.time() - node_image.REMEMBERED_S}))
    assert asked(None, COMES | GOOD) == PUBLISHED
    assert not asked.refusal.exists()


def test_being_reminded_does_not_make_the_memory_younger(asked: Asked) -> None:
    asked(None, NO_NAME)
    kept = json.loads(asked.refusal.read_text())
    asked.refusal.write_text(json.dumps(kept | {"at": kept["at"] - 3600}))
    asked(None, NO_NAME)
    assert json.loads(asked.refusal.read_text())["at"] == kept["at"] - 3600


@pytest.mark.parametrize(
    "kept",
    [{"image": "kindest/node:v1.0.0"}, {"at": time.time() + 3600}, {"at": "once"}, "", "[]", "{}"],
)
def test_a_memory_of_another_image_or_time_or_that_cannot_be_read_does_not_count(
    kept: dict[str, object] | str, asked: Asked
) -> None:
    asked(None, NO_NAME)
    own = json.loads(asked.refusal.read_text())
    asked.refusal.write_text(kept if isinstance(kept, str) else json.dumps(own | kept))
    assert asked(None, COMES | GOOD) == PUBLISHED


def test_an_image_that_was_brought_after_a_refusal_is_used(asked: Asked) -> None:
    asked(None, NO_NAME)
    assert asked(None, THERE | GOOD) == PUBLISHED


def test_a_registry_that_does_not_answer_costs_seconds_once(
    asked: Asked, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert node_image.ANSWER_S <= 15
    monkeypatch.setattr(node_image, "ANSWER_S", 0.3)
    began = time.monotonic()
    assert asked(None, {"pull*": "exec sleep 30"}) is None
    assert asked(None, {"pull*": "exec sleep 30"}) is None
    assert time.monotonic() - began < 10
    assert asked.pulls == [PUBLISHED]
    assert "no answer within 0 s" in said.getvalue()


def test_a_registry_that_answers_and_sends_nothing_is_given_up(
    asked: Asked, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_image, "PULL_S", 0.3)
    assert asked(None, {"pull*": "echo Pulling; exec sleep 30"}) is None
    assert "not come within 0 s" in said.getvalue()


def test_layers_may_take_longer_than_the_first_answer(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_image, "ANSWER_S", 0.5)
    assert asked(None, {"pull*": "echo Pulling; sleep 1; echo done"} | GOOD) == PUBLISHED


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("echo v1.0.0", f"it holds Kubernetes v1.0.0, needed is {VERSION}"),
        ("exit 1", "it is no node image of kind"),
        (f"echo {VERSION}.1", "it holds Kubernetes"),
    ],
)
def test_an_image_of_another_kubernetes_is_refused(answer: str, why: str, asked: Asked, said: io.StringIO) -> None:
    assert asked(None, COMES | {"run*": answer}) is None
    assert why in said.getvalue()
    with pytest.raises(EngineError, match=why):
        asked(OWN_NAME, THERE | {"run*": answer})


def test_the_version_is_asked_of_the_image_without_a_network_and_without_another_pull(
    asked: Asked, docker: FakeDocker
) -> None:
    asked(None, THERE | GOOD)
    (call,) = [one for one in docker.calls if one.startswith("run ")]
    assert "--network none" in call
    assert "--pull never" in call
    assert call.endswith(f"--entrypoint cat {PUBLISHED} /kind/version")


def test_an_image_that_is_named_is_pulled_and_used(asked: Asked) -> None:
    assert asked(OWN_NAME, COMES | GOOD) == OWN_NAME
    assert asked.pulls == [OWN_NAME]


def test_an_image_that_is_named_and_not_to_be_had_is_an_error_that_says_what_to_do(asked: Asked) -> None:
    for _ in range(2):
        with pytest.raises(
            EngineError, match=rf"{SETTING} names {OWN_NAME}.*no such host.*docker login.*unset"
        ) as found:
            asked(OWN_NAME, NO_NAME)
    assert "\n" not in str(found.value)
    assert asked.pulls == [OWN_NAME, OWN_NAME]
    assert not asked.refusal.exists()


def test_naming_kinds_image_asks_again_at_once(asked: Asked) -> None:
    asked(None, NO_NAME)
    assert asked(PUBLISHED, COMES | GOOD) == PUBLISHED
    assert asked.pulls == [PUBLISHED, PUBLISHED]


def test_a_pull_that_fails_without_a_word_is_still_told(asked: Asked, said: io.StringIO) -> None:
    assert asked(None, {"pull*": "exit 3"}) is None
    assert "docker pull ended with 3" in said.getvalue()
