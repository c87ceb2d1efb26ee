"""The figure: sent, published, lag, epochs and faults of a run on one time axis, as geometry for `timeline.svg.j2`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.harness.report import axis, naming, typeset
from tests.harness.report.axis import Scale, Tick, horizontal, vertical
from tests.harness.report.epochs import Attempt
from tests.harness.report.lenient import real, text
from tests.harness.report.series import Rate, Sample, lag, rates
from tests.harness.report.story import Lane, Span, Story

LANE = 24
CHARACTER = 6.1  # mean width of a character at the figure's 11 px, measured generously
NUMBER = 5.4  # of a digit at the 9 px of an epoch's number


@dataclass(frozen=True)
class Frame:
    """The size of a drawing and what follows from it."""

    name: str
    width: int
    left: int
    right: int
    label_rows: int
    ticks: int

    @property
    def finest(self) -> float:
        """Widest detail, in pixels, that is still merged with its neighbour."""
        return 2.5


WIDE = Frame("wide", 1080, 48, 10, 2, 12)
NARROW = Frame("narrow", 358, 32, 6, 2, 6)


@dataclass(frozen=True)
class Box:
    """A rectangle with a label where there is room for one, a title and a kind (which decides how it is filled)."""

    x: float
    y: float
    width: float
    height: float
    label: str = ""
    title: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Mark:
    """A fault: its band, the place of its symbol and label."""

    x: float
    width: float
    y: float
    label: str
    title: str
    hit: bool


@dataclass(frozen=True)
class Panel:
    """One of the stacked diagrams: name, place and ticks."""

    name: str
    top: float
    bottom: float
    ticks: list[Tick]


@dataclass(frozen=True)
class Row:
    """The lane of a role: its name above a bar, and the boxes in which it was away."""

    name: str
    y: float
    away: list[Box]


@dataclass(frozen=True)
class Timeline:
    """Everything the template needs to draw the figure once."""

    frame: Frame
    height: float
    bottom: float
    phases: list[Box]
    marks: list[Mark]
    rates: Panel
    sent: str
    published: str
    lag: Panel
    lag_line: str
    epochs: Panel
    bars: list[Box]
    drivers: list[Box]
    lanes: list[Row]
    ticks: list[Tick]


def draw(of: Story, frame: Frame) -> Timeline:
    """Lay the figure out for one width."""
    x = Scale(of.begin, of.end, frame.left, frame.width - frame.right)
    per_pixel = (of.end - of.begin) / (frame.width - frame.left - frame.right)
    marks_top = 24.0
    marks, rows = _marks(of, frame, x, marks_top)
    top = marks_top + rows * 16 + 26

    sent = rates(of.flow.sent, max(500.0, frame.finest * per_pixel))
    published = rates(of.flow.published, frame.finest * per_pixel)
    rate_panel, y = _panel("records per second", [rate.per_second for rate in sent + published], top, 150)
    sent_path, published_path = _staircase(sent, x, y), _staircase(published, x, y)

    lags = _thin(lag(of.flow), x)
    lag_panel, y = _panel("lag", [value for _, value in lags], rate_panel.bottom + 30, 64)
    lag_line = _polyline([(place, y(value)) for place, value in lags])

    epoch_panel, y = _panel("epochs", [attempt.took_s for attempt in of.attempts], lag_panel.bottom + 30, 76)
    drivers_y = epoch_panel.bottom + 26
    drivers, taken = _drivers(of, frame, x, drivers_y)
    lanes_y = drivers_y + taken * 16 + 6
    lanes = [_lane(lane, of.start, x, lanes_y + number * LANE) for number, lane in enumerate(of.lanes)]
    bottom = lanes_y + len(lanes) * LANE
    return Timeline(
        frame=frame,
        height=bottom + 22,
        bottom=bottom,
        phases=[_phase(phase, of.start, x) for phase in of.phases],
        marks=marks,
        rates=rate_panel,
        sent=sent_path,
        published=published_path,
        lag=lag_panel,
        lag_line=lag_line,
        epochs=epoch_panel,
        bars=_bars(of, frame, x, y),
        drivers=drivers,
        lanes=lanes,
        ticks=horizontal(of.begin, of.end, of.start, x, frame.ticks),
    )


def _panel(name: str, values: Sequence[float], top: float, height: float) -> tuple[Panel, Scale]:
    scale, ticks = vertical(values, top + height, top, 4 if height > 100 else 3)
    return Panel(name, top, top + height, ticks), scale


def _fits(label: str, width: float) -> str:
    return label if len(label) * CHARACTER + 6 <= width else ""


def _phase(phase: Span, start: float, x: Scale) -> Box:
    width = round(x(phase.end) - x(phase.begin), 1)
    title = f"{phase.name}: {typeset.span(phase.begin, phase.end, start)}"
    return Box(x(phase.begin), 0.0, width, 18.0, _fits(phase.name, width), title)


def _marks(of: Story, frame: Frame, x: Scale, top: float) -> tuple[list[Mark], int]:
    """Place the faults, with number and target where all of them fit side by side, else with less or no label."""
    struck = [
        (number, fault, injected)
        for number, fault in enumerate(of.faults, 1)
        if (injected := real(fault.get("injected_at"))) is not None and of.begin <= injected <= of.end
    ]
    places = [x(injected) for _, _, injected in struck]
    full = [f"{number} {naming.role(text(fault.get('target')))}" for number, fault, _ in struck]
    brief = [str(number) for number, _, _ in struck]
    labels, rows = next(
        (labels, rows)
        for labels in (full, brief, [""] * len(struck))
        if (rows := _rows(places, labels, frame)) or not any(labels)
    )
    marks = []
    for (number, fault, injected), place, label, row in zip(
        struck, places, labels, rows or [0] * len(struck), strict=True
    ):
        recovered = real(fault.get("recovered_s"))
        width = round(max(x(injected + (recovered or 0.0) * 1000) - place, 1.0), 1)
        title = f"fault {number}, {naming.name_fault(fault)}, "
        title += f"at {typeset.moment(injected, of.start)}, "
        title += "no recovery seen" if recovered is None else f"recovered after {typeset.seconds(recovered)}"
        hit = fault.get("hit") is True
        title += "" if hit else f"; {naming.miss(fault)}"
        marks.append(Mark(place, width, top + row * 16, label, title, hit))
    return marks, max(rows, default=0) + 1 if marks else 0


def _rows(places: Sequence[float], labels: Sequence[str], frame: Frame) -> list[int]:
    """Choose a row for every label so that none runs into another; nothing when there is not room for all."""
    ends = [0.0] * frame.label_rows
    rows: dict[int, int] = {}
    for at in sorted(range(len(places)), key=lambda at: places[at]):
        end = places[at] + 16 + len(labels[at]) * CHARACTER
        free = [row for row, taken in enumerate(ends) if taken <= places[at]]
        if not free or end > frame.width + 4:
            return []
        rows[at] = free[0]
        ends[free[0]] = end
    return [rows[at] for at in range(len(places))]


def _staircase(found: Sequence[Rate], x: Scale, y: Scale) -> str:
    if not found:
        return ""
    steps = "".join(f"V{y(rate.per_second)}H{x(rate.end)}" for rate in found)
    return f"M{x(found[0].begin)} {y(0)}{steps}V{y(0)}"


def _polyline(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{place} {value}" for place, value in points) if points else ""


def _thin(samples: Sequence[Sample], x: Scale) -> list[Sample]:
    """Keep the first, lowest, highest and last sample of every pixel; the line looks the same."""
    columns: dict[int, list[Sample]] = {}
    for time, value in samples:
        columns.setdefault(int(x(time)), []).append((x(time), value))
    kept: list[Sample] = []
    for column in columns.values():
        order = range(len(column))
        lowest, highest = (choice(order, key=lambda at: column[at][1]) for choice in (min, max))
        kept.extend(column[at] for at in sorted({0, lowest, highest, len(column) - 1}))
    return kept


def _bars(of: Story, frame: Frame, x: Scale, y: Scale) -> list[Box]:
    """Draw one bar per attempt, or one per few pixels when there are more attempts than room."""
    many = len(of.attempts) > (frame.width - frame.left) / 4
    every = _choose_numbering(of.attempts, x)
    groups: dict[object, list[Attempt]] = {}
    for at, attempt in enumerate(of.attempts):
        odd = attempt.repeat or not attempt.published
        groups.setdefault((int(x(attempt.declared_at) / 3), odd) if many else at, []).append(attempt)
    bars = []
    for group in groups.values():
        place = x(group[0].declared_at)
        width = max(x(max(attempt.ended_at for attempt in group)) - place, 1.0)
        longest = max(group, key=lambda attempt: attempt.took_s)
        height = max(y(0) - y(longest.took_s), 1.0)
        label = str(longest.epoch) if len(group) == 1 and longest.published and longest.epoch % every == 0 else ""
        kind = "broken" if not longest.published else "repeat" if longest.repeat else "epoch"
        bars.append(
            Box(place, round(y(0) - height, 1), round(width, 1), round(height, 1), label, _bar_title(group, of), kind)
        )
    return _apart(bars)


def _apart(bars: list[Box]) -> list[Box]:
    """Leave out the numbers that would run into the one before: epochs are not evenly spaced."""
    taken = -math.inf
    shown = []
    for bar in sorted(bars, key=lambda bar: bar.x + bar.width / 2):
        middle, half = bar.x + bar.width / 2, len(bar.label) * NUMBER / 2
        if bar.label and middle - half < taken + 3:
            shown.append(replace(bar, label=""))
            continue
        taken = middle + half if bar.label else taken
        shown.append(bar)
    return shown


def _choose_numbering(attempts: Sequence[Attempt], x: Scale) -> int:
    """Return which epochs get their number written: every first, second, fifth, tenth and so on."""
    if len(attempts) < 2:
        return 1
    apart = (x(attempts[-1].declared_at) - x(attempts[0].declared_at)) / (len(attempts) - 1)
    needed = len(str(attempts[-1].epoch)) * CHARACTER + 8
    return max(1, round(axis.step(10 * needed / max(apart, 0.1), 10)))


def _bar_title(group: Sequence[Attempt], of: Story) -> str:
    longest = max(group, key=lambda attempt: attempt.took_s)
    if len(group) > 1:
        first, last = min(attempt.epoch for attempt in group), max(attempt.epoch for attempt in group)
        return f"epochs {first} to {last}, the longest took {typeset.seconds(longest.took_s, 2)}"
    what = "repeated, " if longest.repeat else ""
    end = "published after" if longest.published else "not published by this driver, broke off after"
    declared = typeset.moment(longest.declared_at, of.start)
    return f"epoch {longest.epoch}: {what}declared at {declared}, {end} {typeset.seconds(longest.took_s, 2)}"


def _drivers(of: Story, frame: Frame, x: Scale, top: float) -> tuple[list[Box], int]:
    """Stack drivers that lived at the same time; one after the other they share a lane."""
    lanes: list[float] = []
    boxes = []
    for span in of.drivers:
        begin, end = x(span.begin), x(span.end)
        lane = next((at for at, taken in enumerate(lanes) if taken <= begin + 0.5), len(lanes))
        if lane == len(lanes):
            if lane == 4:
                continue
            lanes.append(end)
        lanes[lane] = end
        width = round(max(end - begin, 1.0), 1)
        title = f"{span.name}: {typeset.span(span.begin, span.end, of.start)}"
        kind = "killed" if span.name.endswith("killed") else ""
        boxes.append(Box(begin, top + lane * 16, width, 12.0, _fits(span.name, width), title, kind))
    return boxes, max(1, len(lanes))


def _lane(lane: Lane, start: float, x: Scale, top: float) -> Row:
    boxes = [
        Box(
            x(span.begin),
            top + 11,
            round(max(x(span.end) - x(span.begin), 2.0), 1),
            8.0,
            title=f"{lane.name}, {span.name}: {typeset.span(span.begin, span.end, start)}",
            kind=kind,
        )
        for span, kind in lane.away
    ]
    return Row(lane.name, top, boxes)
