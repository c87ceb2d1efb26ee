"""Figures of a part, computed from what was sent, what the sinks show at the end, and the backup that was restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tests.experiments import figures as shared
from tests.experiments.drill.plan import Plan
from tests.experiments.figures import FACTS
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory, read_lines

ACCEPTED, USER_COUNTS = "accepted", "user_counts"
AFTER = "after"
"""Folder of what belongs to a pipeline of another name, which went on where the restored one could not."""
WINDOW_MS = 60_000
FIRST = 5
"""So many examples of each error are kept."""
Row = Mapping[str, Any]
Window = tuple[str, int]


class Facts(shared.Facts):
    """What the play noted down; times in ms since 1970.

    Attributes:
        part: what was destroyed.
        taken_ms: when the head of the backup was read.
        recorded: last epoch of the backup.
        ends: of the backup, by partition of the source: the offset after the last record that an epoch has.
        copied: rows of the backup, by sink on Kafka.
        published: last epoch that the sinks had when it was destroyed.
        destroyed_ms: when the destruction began.
        stopped_ms: when no driver ran any more.
        restored_ms: when `restore` had ended.
        first_ms: when the first epoch after it was published.
        code: exit code of `restore`.
        says: its last line.
        renamed: a pipeline of another name went on.

    """

    part: str
    taken_ms: int = 0
    recorded: int = -1
    ends: dict[str, int] = Field(default_factory=dict)
    copied: dict[str, int] = Field(default_factory=dict)
    published: int = -1
    destroyed_ms: int = 0
    stopped_ms: int = 0
    restored_ms: int = 0
    first_ms: int = 0
    code: int = -1
    says: str = ""
    renamed: bool = False


class Figures(shared.Figures):
    """One part.

    Attributes:
        in_backup: records that epochs of the backup have; copies of an id count once, here and below.
        came_after: acknowledged between it and the destruction.
        sent_later: acknowledged after the destruction.
        missing: of the backup's, those that the sinks do not show.
        doubled: shown more than once.
        phantoms: shown, and never sent.
        unpublished: of those sent later, not shown.
        lost: of those that came after the backup, not shown.
        lost_s: seconds in which these were acknowledged, from the first to the destruction.
        forgotten: shown by the restored pipeline and, as a copy came later, by the one of another name.
        in_open_windows: of the backup's, in windows that no row counts.
        windows: rows of counts that were compared.
        wrong: what is wrong with them.
        rows_missing: by sink on Kafka, rows that the backup holds and the sink does not.
        ahead: epochs by which the sinks were ahead of the backup.
        age_s: of the backup, when it was destroyed.
        stop_s: from the destruction until no driver ran.
        restore_s: from there until everything was restored.
        start_s: from there to the first epoch.

    """

    part: str
    in_backup: int
    came_after: int
    sent_later: int
    missing: list[str]
    doubled: list[str]
    phantoms: list[str]
    unpublished: list[str]
    lost: int
    lost_s: float
    forgotten: int
    in_open_windows: int
    windows: int
    wrong: list[str]
    rows_missing: dict[str, int]
    ahead: int
    age_s: float
    stop_s: float
    restore_s: float
    start_s: float
    code: int
    says: str
    renamed: bool

    @property
    def away_s(self) -> float:
        """Seconds from the destruction to the first epoch after it."""
        return round(self.stop_s + self.restore_s + self.start_s, 1)


def figures(run: Path, _: Plan, part: str) -> list[Figures]:
    """Compute the figures of a part, from the folder of a run.

    Raises:
        EvidenceError: evidence is missing or damaged, or the part broke off.
        ValidationError: the facts are none.

    """
    directory = RunDirectory(run / part)
    facts = Facts.model_validate_json((directory.path / FACTS).read_bytes())
    if facts.broke_off is not None:
        raise EvidenceError(f"it broke off: {facts.broke_off}", directory.path, "run again")
    directory.whole_events()
    shown, sends = _read(directory)
    # A pipeline of another name has a source of its own, and knows nothing of the records of before.
    later, sent_later = _read(RunDirectory(directory.path / AFTER)) if facts.renamed else (shown, [])
    before = [row for row in sends if row["sent_at"] < facts.destroyed_ms]
    sent_later += [row for row in sends if row["sent_at"] >= facts.destroyed_ms]
    ids = _ids(before, facts.ends)
    came_after = {row["id"]: row["sent_at"] for row in reversed(before) if row["id"] not in ids}
    since = {row["id"] for row in sent_later} - ids - came_after.keys()
    counts = Counter(row["id"] for row in shown[ACCEPTED])
    counts_later = counts if later is shown else Counter(row["id"] for row in later[ACCEPTED])
    known = ids | came_after.keys() | (set() if facts.renamed else since)
    known_later = {row["id"] for row in sent_later} if facts.renamed else known
    lost = {one: at for one, at in came_after.items() if one not in counts}
    doubled = [one for one, times in (counts + (counts_later if facts.renamed else Counter())).items() if times > 1]
    windows, wrong = compare_windows(shown[USER_COUNTS], sends, whole=not facts.renamed)
    if facts.renamed:
        more, wrong_later = compare_windows(later[USER_COUNTS], sent_later, whole=True)
        windows, wrong = windows + more, wrong + wrong_later
    counted = {(row["user"], row["window_start_ms"]) for row in shown[USER_COUNTS]}
    fresh = {row["id"]: _window(row) for row in sends}
    return [
        Figures(
            part=facts.part,
            broke_off=facts.broke_off,
            in_backup=len(ids),
            came_after=len(came_after),
            sent_later=len(since),
            missing=sorted(ids - counts.keys()),
            doubled=sorted(doubled),
            phantoms=sorted((counts.keys() - known) | (counts_later.keys() - known_later)),
            unpublished=sorted(since - counts_later.keys()),
            lost=len(lost),
            lost_s=round((facts.destroyed_ms - min(lost.values())) / 1000, 1) if lost else 0.0,
            forgotten=len(counts.keys() & counts_later.keys()) if facts.renamed else 0,
            in_open_windows=sum(fresh[one] not in counted for one in ids),
            windows=windows,
            wrong=wrong,
            rows_missing={
                sink: rows - len(shown[sink]) for sink, rows in facts.copied.items() if rows > len(shown.get(sink, ()))
            },
            ahead=facts.published - facts.recorded,
            age_s=_seconds(facts.taken_ms, facts.destroyed_ms),
            stop_s=_seconds(facts.destroyed_ms, facts.stopped_ms),
            restore_s=_seconds(facts.stopped_ms, facts.restored_ms),
            start_s=_seconds(facts.restored_ms, facts.first_ms),
            code=facts.code,
            says=facts.says,
            renamed=facts.renamed,
        )
    ]


def compare_windows(rows: Iterable[Row], sent: Iterable[Row], *, whole: bool) -> tuple[int, list[str]]:
    """Compare rows of counts with what was sent: how many, and what is wrong.

    Args:
        rows: as the sink shows them.
        sent: records, copies among them.
        whole: every window has to be there, as records that come later close them all.

    """
    due = Counter({row["id"]: _window(row) for row in sent}.values())
    found: dict[Window, list[int]] = {}
    for row in rows:
        found.setdefault((row["user"], row["window_start_ms"]), []).append(row["count"])
    differing = {key: told for key, told in found.items() if told != [due[key]]}
    wrong = [f"{user} in {at}: {told}, not {due[user, at]}" for (user, at), told in differing.items()]
    absent = [f"{user} in {at}: nothing, not {number}" for (user, at), number in due.items() if (user, at) not in found]
    return len(found), sorted(wrong + (absent if whole else []))


def _read(directory: RunDirectory) -> tuple[dict[str, Sequence[Row]], list[Row]]:
    """What sinks show, and what was sent; closers stand after everything that is measured."""
    sent = [*read_lines(directory.sent_path)]
    closers = {row["id"] for row in sent if row["kind"] == "closer"}
    shown: dict[str, Sequence[Row]] = {
        sink: [row for row in directory.rows(sink) if row.get("id") not in closers and row.get("user") != "closer"]
        for sink in (ACCEPTED, USER_COUNTS)
    }
    return shown, [row for row in sent if row["kind"] != "closer"]


def _ids(sent: Iterable[Row], ends: Mapping[str, int]) -> set[str]:
    return {row["id"] for row in sent if row["offset"] < ends.get(str(row["partition"]), 0)}


def _window(row: Row) -> Window:
    return row["user"], row["event_time_ms"] - row["event_time_ms"] % WINDOW_MS


def _seconds(since_ms: int, until_ms: int) -> float:
    return round((until_ms - since_ms) / 1000, 1)
