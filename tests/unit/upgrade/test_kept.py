"""The stack's settings are put back as they were, also after a run that was killed, and never over another's."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from infra.cluster.record import Record
from infra.images import wheels
from tests.harness.upgrade.changes import NoChangeError
from tests.harness.upgrade.deployment import list_secrets, read_config, read_security_of, without_wheel
from tests.harness.upgrade.kept import Kept, KeptError
from tests.harness.upgrade.marker import NAME, make_wheel
from tests.harness.upgrade.run import refuse_unmade, refuse_without_login

BEFORE = "encryptionsalt: v1:abc\nconfig:\n  effectively-once:profile: laptop\n"


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    file = tmp_path / "Pulumi.laptop.yaml"
    file.write_text(BEFORE)
    return Kept(file, tmp_path / "state" / "upgrade-settings.yaml")


@pytest.fixture(autouse=True)
def state(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()


def change(kept: Kept, text: str = "  more: 1\n") -> None:
    kept.begin()
    kept.file.write_text(kept.file.read_text() + text)
    kept.finish()


def test_settings_are_put_back_byte_for_byte(kept: Kept) -> None:
    kept.keep()
    change(kept)
    change(kept)
    assert kept.is_there
    kept.put_back()
    assert kept.file.read_text() == BEFORE
    kept.forget()
    assert not kept.is_there
    assert [*kept.copy.parent.iterdir()] == []


def test_who_was_killed_while_a_setting_was_written_loses_nothing(kept: Kept) -> None:
    kept.keep()
    kept.begin()
    kept.file.write_text("half of")
    kept.put_back()
    assert kept.file.read_text() == BEFORE


def test_settings_that_somebody_else_has_changed_are_left_alone(kept: Kept) -> None:
    kept.keep()
    change(kept)
    kept.file.write_text("theirs")
    with pytest.raises(KeptError, match="bring both together by hand"):
        kept.put_back()
    assert kept.file.read_text() == "theirs"
    assert kept.is_there


def test_a_copy_is_nobody_elses_to_read(kept: Kept) -> None:
    kept.keep()
    assert kept.copy.stat().st_mode & 0o077 == 0


def test_settings_are_laid_over_the_profile() -> None:
    found = read_config(BEFORE + "  effectively-once:security:\n    spark: true\n  other:key: 1\n")
    assert found["security"] == {"spark": True}
    assert read_config(BEFORE + """  effectively-once:security: '{"spark": true}'\n""")["security"] == {"spark": True}
    assert found["kafka"] == {"storage_size": "4Gi"}
    assert "key" not in found


def test_pipelines_in_a_list_are_refused_with_what_to_do() -> None:
    with pytest.raises(NoChangeError, match="write them by name"):
        read_config(BEFORE + "  effectively-once:pipelines:\n    - name: user_counts\n")


def test_a_machine_without_a_cluster_of_ours_is_refused() -> None:
    refuse_unmade(Record("ready", "node:1", 1))
    with pytest.raises(NoChangeError, match="run `make up`"):
        refuse_unmade(None)


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ("campaigns: true", False),
        ("campaigns: false", True),
        ("rotation: 1", True),
        ("level: each", False),
        ("kafka: false", False),
    ],
)
def test_a_broker_that_knows_nobody_who_runs_campaigns_is_refused(settings: str, refused: bool) -> None:
    """As the stack's file says it, and where it says nothing every server asks for a login."""
    given = read_config(BEFORE + f"  effectively-once:security:\n    {settings}\n")
    with pytest.raises(NoChangeError, match=r"security\.campaigns true") if refused else nullcontext():
        refuse_without_login(read_security_of(given))


def test_each_wheel_is_another_one_that_an_image_can_take(tmp_path: Path) -> None:
    made = [wheels.read(make_wheel(tmp_path, number, run)) for run in ("20261128-051500-7", "r-2") for number in (1, 2)]
    assert {one.name for one in made} == {NAME}
    assert len({one.sha256 for one in made}) == 4
    again = wheels.read(make_wheel(tmp_path / "again", 1, "20261128-051500-7"))
    assert again.sha256 == made[0].sha256


def test_the_image_of_a_run_is_named_no_more_afterwards() -> None:
    assert without_wheel({"spark": "s:1", f"job-{NAME}": "j:1", "job-clicks": "c:1"}) == {
        "spark": "s:1",
        "job-clicks": "c:1",
    }


def test_secrets_of_a_driver_are_found_in_the_charts_values() -> None:
    values = {"credentialsSecret": "c", "databaseSecret": None, "sparkSecret": {"secret": "s", "version": "1"}}
    assert list_secrets(values) == ["c", "s"]
    assert list_secrets({"credentialsSecret": "c", "sparkSecret": None}) == ["c"]
