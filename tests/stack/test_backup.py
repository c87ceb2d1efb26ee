"""The drill: back up, lose everything of the chain, restore, start, and publish on, each row once (R9, R10)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from effectively_once.__main__ import main
from effectively_once.errors import ChainError, SinkError, StaleDriverError
from effectively_once.ledger.head import decode
from effectively_once.operate.backup.backup_manifest import BackupError, manifest_of
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.operate.backup.series import FORM
from effectively_once.store.folder_store import FolderStore
from infra.embedded.process import wait_for
from tests.stack.clicks import Clicks
from tests.unit.library.ledger_driver import LedgerDriver

pytestmark = pytest.mark.stack

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "back-up-and-restore.md"
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(clicks: Clicks, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of the how-to as it stands there, with the settings and places of this test."""
    documented = [line for line in HOW_TO.read_text().splitlines() if line.startswith("effectively-once ")]
    places = {
        "settings.json": str(clicks.file),
        "/backups/monday": str(tmp_path / "monday"),
        "s3://backups/user_counts --keep 14": f"s3://{clicks.settings.s3_bucket}/backups/series --keep 2",
        "s3://backups/user_counts/tuesday": f"s3://{clicks.settings.s3_bucket}/backups/tuesday",
    }

    def run(line: str) -> tuple[int, str]:
        assert line in documented
        for name, ours in places.items():
            line = line.replace(name, ours)
        code = main(shlex.split(line)[1:])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def back_up_and_lose(clicks: Clicks, place: Path, epochs: int) -> LedgerDriver:
    """Publish so many epochs, back up, and lose every object; returns the driver."""
    driver = clicks.start("first")
    driver.run(epochs)
    assert main(["backup", str(clicks.file), str(place)]) == 0
    clicks.lose_everything()
    return driver


def test_the_drill_of_the_how_to(clicks: Clicks, command: Command) -> None:
    driver = clicks.start("first")
    driver.run(12)
    with clicks.running(driver):
        code, told = command("effectively-once backup settings.json /backups/monday")
        assert (code, bool(re.search(r"complete: \d+ objects, [\d,]+ bytes", told))) == (0, True), told
        clicks.wait_for_epochs(driver)
    code, told = command("effectively-once backup settings.json s3://backups/user_counts/tuesday --checkpoint")
    assert code == 0, told
    last = clicks.head().last_recorded
    clicks.lose_everything()
    code, told = command("effectively-once restore settings.json /backups/monday")
    assert (code, "restored: epoch" in told, "start: refused" in told) == (SinkError.exit_code, True, True)
    assert f"progress mark {last} lies outside the chain's" in told
    assert "Restore both from one backup, or give the pipeline another name" in told
    with pytest.raises(SinkError, match=f"progress mark {last} lies outside"):
        clicks.start("too early")
    code, told = command("effectively-once restore settings.json s3://backups/user_counts/tuesday")
    assert (code, "the pipeline has a chain" in told) == (ChainError.exit_code, True)
    clicks.lose_everything()
    code, told = command("effectively-once restore settings.json s3://backups/user_counts/tuesday")
    assert (code, "start: a driver would start" in told) == (0, True), told
    code, told = command("effectively-once inspect settings.json")
    assert (code, f"recorded    epoch {last} " in told) == (0, True), told
    clicks.assert_published_once(last + 1)
    clicks.start("second").run(5)
    clicks.assert_published_once(last + 6)


def test_of_a_series_the_newest_stay_and_can_be_gone_on_with(clicks: Clicks, command: Command) -> None:
    driver = clicks.start("first")
    folders: list[set[str]] = []
    for _ in range(3):
        driver.run(2)
        # A folder is named after a second.
        wait_for("another second", 5, lambda: f"{datetime.now(UTC):{FORM}}" not in set().union(*folders))
        code, told = command("effectively-once backup settings.json s3://backups/user_counts --keep 14")
        assert code == 0, told
        folders.append({name.split("/")[2] for name in clicks.store.names("backups/series/")})
    assert ([len(one) for one in folders], folders[1] & folders[2]) == ([1, 2, 2], folders[2] - {max(folders[2])})
    clicks.lose_everything()
    place = f"s3://{clicks.settings.s3_bucket}/backups/series/{max(folders[2])}"
    assert main(["restore", str(clicks.file), place]) == 0
    clicks.start("second").run(2)
    clicks.assert_published_once(8)


@pytest.mark.parametrize("crash", ["declared", "decided 1", "accepted 0", "accepted 1", "counted 0", "published"])
def test_a_backup_of_a_half_published_epoch_is_gone_on_with(clicks: Clicks, tmp_path: Path, crash: str) -> None:
    """A driver died there; what it published of the declared epoch stays in the sinks and is not published again."""
    driver = clicks.start("first")
    driver.run(5)
    for step in driver.steps():
        if step == crash:
            break
    place = str(tmp_path / "backup")
    assert main(["backup", str(clicks.file), place]) == 0
    clicks.lose_everything()
    assert main(["restore", str(clicks.file), place]) == 0
    second = clicks.start("second")
    declared = second.held.head.declared
    assert declared is not None
    assert declared.epoch == 5
    second.run(4)
    clicks.assert_published_once(9)


def test_a_pipeline_started_without_its_chain_is_refused_and_so_is_a_restore_over_it(
    clicks: Clicks, tmp_path: Path
) -> None:
    back_up_and_lose(clicks, tmp_path / "backup", 3)
    restore = ["restore", str(clicks.file), str(tmp_path / "backup")]
    with pytest.raises(SinkError, match="progress mark 2 lies outside the chain's -1 to -1"):
        clicks.start("too early")
    assert main(restore) == ChainError.exit_code
    clicks.lose_everything()
    assert main(restore) == 0
    clicks.start("second").run(2)
    clicks.assert_published_once(5)


def test_a_driver_of_before_the_loss_stops(clicks: Clicks, tmp_path: Path) -> None:
    driver = back_up_and_lose(clicks, tmp_path / "backup", 3)
    assert main(["restore", str(clicks.file), str(tmp_path / "backup")]) == 0
    with pytest.raises(StaleDriverError, match="replaced by restored-"):
        driver.run(1)
    clicks.start("second").run(2)
    clicks.assert_published_once(5)


def test_settings_that_contradict_the_backup_are_refused_before_anything_is_put(
    clicks: Clicks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back_up_and_lose(clicks, tmp_path / "backup", 2)
    clicks.file.write_text(clicks.settings.model_copy(update={"window_ms": 7}).model_dump_json())
    assert main(["restore", str(clicks.file), str(tmp_path / "backup")]) == 64
    assert "window_ms was 1000 when this pipeline began and is 7 now" in capsys.readouterr().err
    assert list(clicks.store.names(f"{clicks.layout.pipeline}/")) == []


def test_every_backup_taken_while_epochs_go_by_can_be_restored(clicks: Clicks, tmp_path: Path) -> None:
    """One after the other, each into another bucket's place; the objects of each are those that its head names."""
    places = [tmp_path / f"backup-{n}" for n in range(4)]
    driver = clicks.start("first")
    with clicks.running(driver):
        for place in places:
            assert main(["backup", str(clicks.file), str(place)]) == 0
            clicks.wait_for_epochs(driver)
    epochs = [
        decode(manifest_of(BackupLocation(FolderStore(place), "folder")).head.encode(), "head").last_recorded
        for place in places
    ]
    assert epochs == sorted(set(epochs))
    for place in places:
        clicks.lose_everything()
        # The sinks are ahead of all of them; what is asked here is whether the chain is whole.
        assert main(["restore", str(clicks.file), str(place)]) == SinkError.exit_code
        assert main(["backup", str(clicks.file), str(place / "again")]) == 0


def test_a_backup_that_lost_an_object_is_refused_and_nothing_is_put(clicks: Clicks, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    back_up_and_lose(clicks, place, 4)
    next(place.rglob("*.arrow")).unlink()
    assert main(["restore", str(clicks.file), str(place)]) == BackupError.exit_code
    assert list(clicks.store.names(f"{clicks.layout.pipeline}/")) == []


def test_sinks_that_went_on_are_made_anew_and_filled_from_the_backup(
    clicks: Clicks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And topics that are gone are: what the backup has is there once, and the restored chain publishes the rest."""
    place = str(tmp_path / "backup")
    restore = ["restore", str(clicks.file), place, "--topics"]
    driver = clicks.start("first")
    driver.run(5)
    with clicks.running(driver):
        assert main(["backup", str(clicks.file), place, "--topics"]) == 0
        clicks.wait_for_epochs(driver)
    last = clicks.head().last_recorded
    clicks.lose_everything()
    assert main(restore) == SinkError.exit_code
    assert f"their mark is {last}, not " in capsys.readouterr().err
    assert list(clicks.store.names(f"{clicks.layout.pipeline}/")) == []
    # The chain alone comes back, and no driver may start on it; its topics are made anew beside it.
    assert main(restore[:-1]) == SinkError.exit_code
    clicks.make_topics_anew()
    capsys.readouterr()
    assert main(restore) == 0
    assert "start: a driver would start" in capsys.readouterr().out
    assert main(restore) == 0
    recorded = clicks.head().last_recorded
    assert recorded < last
    second = clicks.start("second")
    second.run(last - recorded)
    clicks.assert_published_once(last + 1)
    # What was filled can be backed up as what was published.
    again = str(tmp_path / "again")
    assert main(["backup", str(clicks.file), again, "--topics"]) == 0
    clicks.lose_everything()
    clicks.make_topics_anew()
    assert main(["restore", str(clicks.file), again, "--topics"]) == 0
    clicks.start("third").run(2)
    clicks.assert_published_once(last + 3)


def test_a_backup_without_copies_of_topics_fills_none(clicks: Clicks, tmp_path: Path) -> None:
    back_up_and_lose(clicks, tmp_path / "backup", 2)
    assert main(["restore", str(clicks.file), str(tmp_path / "backup"), "--topics"]) == BackupError.exit_code
    assert list(clicks.store.names(f"{clicks.layout.pipeline}/")) == []
