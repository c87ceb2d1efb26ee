"""Whether the result of a window is complete: who had said that all of it was sent when it was closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from effectively_once.driver.clock import find_left_behind
from effectively_once.errors import SettingsError
from effectively_once.ledger import chain, segments
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.state.lateness import Windows

Verdict = Literal["complete", "released", "lost", "closed", "open"]
EXIT_CODES: dict[Verdict, int] = {"complete": 0, "closed": 0, "released": 1, "lost": 1, "open": 2}


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the chain says of one window.

    Attributes:
        verdict: `complete`: every registered source had passed it; `released`: some were not waited for; `lost`: while
            it was open, input was given up that the topic had lost; `closed`: no source is registered, so that
            partitions alone tell; `open`: its result is not there yet.
        start_ms, end_ms: the window, ms since 1970.
        epoch: the one that closed it.
        watermark_ms: of that epoch, or of the last.
        passed: source -> event time before which all of it was read.
        released: sources that were not waited for; those too, and partitions (topic/partition), for which too much was
            held.
        lost: how many records it may lack at most, as the topic lost them.

    """

    verdict: Verdict
    start_ms: int
    end_ms: int
    epoch: int | None
    watermark_ms: int | None
    passed: dict[str, int | None]
    released: tuple[str, ...]
    lost: int


def windows_of(job: Job, name: str | None) -> Windows:
    """Return the windows of a name; without one those of the pipeline, where all are of one length.

    Raises:
        SettingsError: there are none of this name, or several lengths and no name.

    """
    own = {each.name: each.windows(job.settings.windows) for each in job.pipeline.windows}
    if name is not None and name not in own:
        raise SettingsError(
            f"no windows are called {name!r}", "--of", f"Leave it out, or name one of: {', '.join(own) or 'none'}."
        )
    found = {own[name]} if name is not None else {*own.values()} or {job.settings.windows}
    if len(found) > 1:
        raise SettingsError("the pipeline has windows of several lengths", "--window", f"Add --of {' or '.join(own)}.")
    return found.pop()


def certify(
    settings: PipelineSettings, store: ObjectStore, start_ms: int, windows: Windows | None = None
) -> Certificate:
    """Look a window up in the chain: one of `windows`, or of the length that the settings have.

    Raises:
        SettingsError: no window begins there.
        ChainError: the chain cannot be read.

    """
    layout, windows = Layout(settings.pipeline), windows or settings.windows
    if windows.start(start_ms) != start_ms:
        raise SettingsError(
            f"no window begins at {start_ms}",
            "--window",
            f"The one that holds it begins at {windows.start(start_ms)}.",
        )
    head = run(chain.read(layout), store)
    return _of(head, run(segments.history(layout, head), store), windows, start_ms)


def _of(head: Head, records: list[EpochRecord], windows: Windows, start_ms: int) -> Certificate:
    closing = next(
        (it for it in records if windows.newly_closed(start_ms, it.previous_watermark_ms, it.watermark_ms)), None
    )
    # The declared epoch has pinned what it will close, and has closed nothing yet.
    told = closing or (records[-1] if records else None)
    clock = (told and told.clock) or Clock()
    released = (*clock.released, *(find_left_behind(clock, told.ranges) if told else ()))
    lost = sum(it.lost.count for it in records if it.lost is not None and _concerned(it, it.lost, windows, start_ms))
    verdict: Verdict = "open"
    if closing is not None:
        verdict = "lost" if lost else "released" if released else "complete" if clock.sources else "closed"
    return Certificate(
        verdict,
        start_ms,
        start_ms + windows.length_ms,
        None if closing is None else closing.epoch,
        told.watermark_ms if told else head.watermark_ms,
        clock.sources,
        released,
        lost,
    )


def _concerned(record: EpochRecord, lost: Loss, windows: Windows, start_ms: int) -> bool:
    """Whether a window may lack what an epoch gave up: it was open, and had begun. The records' own times are gone."""
    return start_ms <= lost.at_ms and not windows.closed(start_ms, record.watermark_ms)


def complete(
    settings: PipelineSettings,
    store: ObjectStore,
    start_ms: int,
    say: Callable[[str], None],
    *,
    as_json: bool,
    windows: Windows | None = None,
) -> int:
    """Say what the certificate of a window says, and return the exit code: 0 where its result is as it stays."""
    found = certify(settings, store, start_ms, windows)
    if as_json:
        say(json.dumps(asdict(found), indent=2))
        return EXIT_CODES[found.verdict]
    window = f"window {found.start_ms} to {found.end_ms}"
    at = f"closed by epoch {found.epoch} at watermark {found.watermark_ms}"
    closes_ms = found.end_ms + settings.lateness_ms
    say(
        {
            "complete": f"complete: {window}, {at}; every source had passed it",
            "lost": f"lost: {window}, {at}; it may lack {found.lost:,} records that the topic lost (accept-loss)",
            "closed": f"closed: {window}, {at}; no source is registered (settings: sources), so partitions alone tell",
            "released": f"released: {window}, {at}, without {', '.join(found.released)}: of these it may lack records",
            "open": f"open: {window} closes at watermark {closes_ms}, it is {found.watermark_ms}",
        }[found.verdict]
    )
    for name, time_ms in found.passed.items():
        waited = " (not waited for)" if name in found.released else ""
        say(f"  {name}: {'has said nothing' if time_ms is None else f'all before {time_ms} was read'}{waited}")
    return EXIT_CODES[found.verdict]
