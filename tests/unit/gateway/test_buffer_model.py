"""The buffer against a model: any order of appends, crashes in the middle of one, acknowledgements and openings."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effectively_once.gateway import frames
from effectively_once.gateway.buffer import Buffer
from tests.depth import examples
from tests.unit.gateway.buffers import body, opened, read
from tests.unit.gateway.disks import Crash, CrashingDisk

SEGMENT_BYTES = 1024
TEXTS = st.lists(st.text("ab", max_size=300), min_size=1, max_size=5)


class BufferModel(RuleBasedStateMachine):
    """What must be read: everything accepted and not acknowledged, in order; what may be read besides is bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        CrashingDisk.before = 1 << 60
        self.count = 0
        self.unacknowledged: list[str] = []
        self.later: set[str] = set()
        self.in_doubt: list[str] = []
        self.ordinals: dict[str, int] = {}
        self.buffer = self._open()

    def teardown(self) -> None:
        self.buffer.close()
        shutil.rmtree(self.directory)

    def _open(self) -> Buffer:
        return opened(self.directory, segment_bytes=SEGMENT_BYTES, open_file=CrashingDisk)

    def _named(self, texts: list[str]) -> list[str]:
        first, self.count = self.count, self.count + len(texts)
        return [f"{number}:{text}" for number, text in enumerate(texts, first)]

    @rule(texts=TEXTS)
    def append(self, texts: list[str]) -> None:
        """Accept a batch."""
        named = self._named(texts)
        self.buffer.append([body(text) for text in named])
        self.unacknowledged += named

    @rule(texts=TEXTS, share=st.floats(0, 1))
    def die_while_appending(self, texts: list[str], share: float) -> None:
        """Die after some bytes of a batch. Which of its records are there, nobody was told."""
        named = self._named(texts)
        size = sum(frames.HEAD_BYTES + len(body(text)) for text in named)
        CrashingDisk.before = int(share * size)
        try:
            self.buffer.append([body(text) for text in named])
        except Crash:
            self.in_doubt = named
        else:
            self.unacknowledged += named
        CrashingDisk.before = 1 << 60
        self._reopen(forgotten=True)

    @rule(which=st.lists(st.booleans(), min_size=1, max_size=7))
    def acknowledge(self, which: list[bool]) -> None:
        """Read on, and acknowledge some of what was read."""
        self.ordinals |= {text: ordinal for ordinal, text in read(self.buffer).items()}
        chosen = [text for text, yes in zip(self.unacknowledged, itertools.cycle(which), strict=False) if yes]
        self.buffer.acknowledge([self.ordinals[text] for text in chosen if text not in self.later])
        # Only a beginning without a gap is forgotten; the rest may come again, which is no fault.
        done = set(chosen) | self.later
        while self.unacknowledged and self.unacknowledged[0] in done:
            self.unacknowledged.pop(0)
        self.later = done & set(self.unacknowledged)

    @rule()
    def save(self) -> None:
        """Record what is acknowledged."""
        self.buffer.save()

    @rule()
    def close_and_open(self) -> None:
        """Open again in order."""
        self.buffer.close()
        self._reopen(forgotten=False)

    @rule()
    def die_and_open(self) -> None:
        """Open again after a crash between two calls."""
        self._reopen(forgotten=True)

    def _reopen(self, *, forgotten: bool) -> None:
        if forgotten:
            self.buffer._lock.release()  # the end of a process does that
        self.buffer = self._open()
        self.later = set()
        found = read(self.buffer)
        texts = list(found.values())
        doubtful = [text for text in texts if text in self.in_doubt]
        # A beginning of the batch that was being written, at the end; and what was acknowledged but not recorded.
        assert doubtful == self.in_doubt[: len(doubtful)]
        must = self.unacknowledged + doubtful
        assert texts[len(texts) - len(must) :] == must
        assert forgotten or texts == must
        self.unacknowledged = texts
        self.in_doubt = []
        self.ordinals = {text: ordinal for ordinal, text in found.items()}
        assert self.buffer.unacknowledged_bytes == sum(frames.HEAD_BYTES + len(body(text)) for text in texts)

    @invariant()
    def disk_is_bounded(self) -> None:
        """Nothing acknowledged is kept, but for the rest of two segments and a batch."""
        on_disk = sum(path.stat().st_size for path in self.directory.glob("*.segment"))
        batch = 5 * 400
        headers = 300 * len(list(self.directory.glob("*.segment")))
        assert on_disk <= self.buffer.unacknowledged_bytes + 2 * (SEGMENT_BYTES + batch) + headers


BufferModel.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=20, deadline=None)
TestBufferModel = BufferModel.TestCase
