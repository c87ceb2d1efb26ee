"""The stack is asked through the command line, and its settings file is found again by another checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster.pulumi import PulumiError, Stack
from infra.cluster.state import PROJECT, StateDirectory
from infra.console import Console
from tests.unit.toolchain.fake_programs import program

SALT = "encryptionsalt: v1:abc\n"


class FakePulumi:
    """`stack init` and `stack rm` keep the backend's file, `config set` writes the settings file, as Pulumi's do."""

    def __init__(self, state: StateDirectory) -> None:
        """Put it where the toolchain links the real one."""
        self.calls_file = state.root / "calls"
        self.kept = state.backend / ".pulumi" / "stacks" / "effectively-once" / "laptop.json"
        self._state = state
        self.answers()

    def answers(self, first: str = "") -> None:
        """Run `first` before everything else."""
        script = f"""
echo "$*" >>{self.calls_file}
for word; do checkout="$word"; done
settings="$checkout/Pulumi.laptop.yaml"
{first}
case "$*" in
  stack?init*) mkdir -p {self.kept.parent}; echo '{{}}' >{self.kept}; printf '{SALT.strip()}\\n' >"$settings" ;;
  stack?rm*) rm -f {self.kept} ;;
  config?set*) echo "config: $5 $6" >>"$settings" ;;
esac
echo "told $PULUMI_BACKEND_URL $PULUMI_CONFIG_PASSPHRASE_FILE"
"""
        program(self._state.programs, "pulumi", script)

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


@pytest.fixture
def pulumi(state: StateDirectory) -> FakePulumi:
    return FakePulumi(state)


@pytest.fixture
def stack(state: StateDirectory, tmp_path: Path) -> Stack:
    return Stack(state, tmp_path / "checkout")


def test_a_command_runs_unattended_in_the_checkout_with_our_backend(stack: Stack, pulumi: FakePulumi) -> None:
    said = stack.run("stack", "ls")
    assert pulumi.calls == [f"stack ls --non-interactive --cwd {stack.checkout}"]
    assert said == f"told file://{stack.state.backend} {stack.state.passphrase}\n"


def test_a_failure_shows_the_end_of_the_log_and_where_it_is(stack: Stack, pulumi: FakePulumi) -> None:
    pulumi.answers(
        "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; echo 'pod is not ready' >&2; exit 255"
    )
    with pytest.raises(PulumiError, match=r"pulumi up ended with 255") as caught:
        stack.run("up", "--yes")
    said = str(caught.value)
    assert "pod is not ready" in said
    assert str(stack.state.root / "pulumi.log") in said
    assert "line 99" in said
    assert "line 3\n" not in said


def test_the_first_selection_makes_the_stack_and_keeps_its_settings(stack: Stack, pulumi: FakePulumi) -> None:
    stack.config_file.write_text("of a stack that is gone")
    assert not stack.exists()
    stack.select("laptop")
    assert stack.exists()
    init, profile, crds, campaigns = pulumi.calls
    assert init.startswith("stack init laptop --secrets-provider passphrase --no-select ")
    assert profile.startswith("config set --stack laptop effectively-once:profile laptop")
    named = f"effectively-once:spark_operator.crds {stack.state.resource_definitions}"
    assert crds.startswith(f"config set --stack laptop --path {named}")
    assert campaigns.startswith("config set --stack laptop --path effectively-once:security.campaigns true")
    assert stack.config_file.read_text().startswith(SALT)
    assert (stack.state.root / "Pulumi.laptop.yaml").read_text() == stack.config_file.read_text()


def test_another_checkout_gets_the_salt_that_the_state_was_written_with(
    stack: Stack, pulumi: FakePulumi, tmp_path: Path
) -> None:
    stack.select("laptop")
    second = Stack(stack.state, tmp_path / "second")
    second.checkout.mkdir()
    second.select("ci")
    assert second.config_file.read_text().startswith(SALT)
    assert "effectively-once:profile ci" in second.config_file.read_text()
    assert not [call for call in pulumi.calls[4:] if call.startswith("stack init")]


def test_what_watches_is_set_once_and_read_from_the_settings(stack: Stack, pulumi: FakePulumi) -> None:
    stack.config_file.write_text("config:\n  effectively-once:monitoring:\n    enabled: true\n")
    assert not stack.is_watched(), "those are of a stack that is gone"
    stack.select("laptop", monitoring=True)
    assert pulumi.calls[-1].startswith("config set --stack laptop --path effectively-once:monitoring.enabled true")
    for written, watched in (("true", True), ('"true"', True), ("false", False)):
        stack.config_file.write_text(f"{SALT}config:\n  effectively-once:monitoring:\n    enabled: {written}\n")
        assert stack.is_watched() is watched
    for other in ("", "text", SALT, f"{SALT}config:\n  effectively-once:profile: laptop\n"):
        stack.config_file.write_text(other)
        assert not stack.is_watched()


@pytest.mark.parametrize("said", ["true", "false"])
def test_whether_campaigns_log_in_stays_as_the_settings_say(stack: Stack, pulumi: FakePulumi, said: str) -> None:
    stack.select("laptop")
    text = f"{SALT}config:\n  effectively-once:security:\n    campaigns: {said}\n"
    stack.config_file.write_text(text)
    # What it writes is no mapping here: the file stays as the user has it.
    pulumi.answers("exit 0")
    before = len(pulumi.calls)
    stack.select("laptop")
    assert len(pulumi.calls) > before
    assert not [call for call in pulumi.calls[before:] if "security.campaigns" in call]
    assert stack.config_file.read_text() == text


def test_a_checkouts_own_settings_are_not_written_over(stack: Stack, pulumi: FakePulumi) -> None:
    stack.select("laptop")
    stack.config_file.write_text(f"{SALT}mine: yes\n")
    stack.select("laptop")
    assert "mine: yes" in stack.config_file.read_text()


def test_a_failed_selection_does_not_replace_the_kept_settings(stack: Stack, pulumi: FakePulumi) -> None:
    stack.select("laptop")
    kept = (stack.state.root / "Pulumi.laptop.yaml").read_text()
    stack.config_file.write_text("broken")
    pulumi.answers("exit 1")
    with pytest.raises(PulumiError):
        stack.select("laptop")
    assert (stack.state.root / "Pulumi.laptop.yaml").read_text() == kept


def test_an_update_after_an_interrupted_one_takes_its_lock_away_first_and_no_other_stacks(
    stack: Stack, pulumi: FakePulumi, console: Console
) -> None:
    locks = stack.state.backend / ".pulumi" / "locks" / "organization" / "effectively-once"
    for locked, called in (("", ["up"]), ("other", ["up"]), ("laptop", ["cancel", "up"])):
        if locked:
            (locks / locked).mkdir(parents=True)
            (locks / locked / "1.json").write_text("{}")
        before = len(pulumi.calls)
        stack.up(console)
        assert [call.split()[0] for call in pulumi.calls[before:]] == called, locked
    assert "--yes" in pulumi.calls[-1]


def test_the_project_is_named_as_the_program_names_it() -> None:
    named = (Path(__file__).parents[3] / "Pulumi.yaml").read_text()
    assert f"name: {PROJECT}\n" in named


def test_a_stack_of_the_same_name_in_another_project_is_not_ours(stack: Stack) -> None:
    other = stack.state.backend / ".pulumi" / "stacks" / "other" / "laptop.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    assert not stack.exists()
    stack.erase()
    assert other.exists()


def test_erasing_takes_every_file_of_the_stack_and_no_other_without_asking_pulumi(
    stack: Stack, pulumi: FakePulumi
) -> None:
    stack.select("laptop")
    calls = len(pulumi.calls)
    below = stack.state.backend / ".pulumi"
    for name in ("laptop", "laptop2"):
        for path in (
            f"stacks/{PROJECT}/{name}.json",
            f"stacks/{PROJECT}/{name}.json.bak",
            f"history/{PROJECT}/{name}/a.json",
            f"backups/{PROJECT}/{name}/a.json",
            f"locks/organization/{PROJECT}/{name}/a.json",
        ):
            (below / path).parent.mkdir(parents=True, exist_ok=True)
            (below / path).write_text("{")
    stack.erase()
    left = [path.relative_to(below) for path in below.rglob("*") if path.is_file()]
    assert len(left) == 5
    assert all("laptop2" in str(path) for path in left)
    assert not stack.exists()
    assert not stack.config_file.exists()
    assert not (stack.state.root / "Pulumi.laptop.yaml").exists()
    assert len(pulumi.calls) == calls
    stack.erase()


def test_forgetting_drops_state_and_settings_of_this_checkout_and_the_kept_ones(
    stack: Stack, pulumi: FakePulumi
) -> None:
    stack.select("laptop")
    stack.forget()
    assert pulumi.calls[-1].startswith("stack rm --force --yes laptop")
    assert not stack.exists()
    assert not stack.config_file.exists()
    assert not (stack.state.root / "Pulumi.laptop.yaml").exists()
    calls = len(pulumi.calls)
    stack.forget()
    assert len(pulumi.calls) == calls
