"""How numbers, times and words are set on the page."""

import statistics
from datetime import UTC, datetime

THIN = "\N{NARROW NO-BREAK SPACE}"
NOT_KNOWN = "\N{EM DASH}"
MINUS = "\N{MINUS SIGN}"

SYMBOLS = {
    "pass": "\N{CHECK MARK}",
    "fail": "\N{MULTIPLICATION X}",
    "unknown": "?",
}


def count(value: int | None) -> str:
    """Set a whole number with thin separators: 240 000."""
    if value is None:
        return NOT_KNOWN
    return f"{value:,}".replace(",", THIN).replace("-", MINUS)


def short_count(value: float) -> str:
    """Set a tick of an axis: 500, 12k, 2.5k, 3M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def seconds(value: float | None, digits: int = 1) -> str:
    """Set a length of time given in seconds: 12.4 s."""
    if value is None:
        return NOT_KNOWN
    return f"{value:,.{digits}f}{THIN}s".replace(",", THIN).replace("-", MINUS)


def percent(part: float | None) -> str:
    """Set a part of one as per cent, with two digits that count: 0.3 %, 2.7 %, 100 %."""
    return NOT_KNOWN if part is None else f"{float(f'{part * 100:.2g}'):g}{THIN}%"


def span(first_ms: float, last_ms: float, start_ms: float) -> str:
    """Set two moments as seconds after the start of the run: 3.0 to 4.5 s."""
    first = f"{(first_ms - start_ms) / 1000:,.1f}".replace(",", THIN).replace("-", MINUS)
    return f"{first} to {seconds((last_ms - start_ms) / 1000)}"


def moment(time_ms: float | None, start_ms: float) -> str:
    """Set a moment, given in milliseconds since 1970, as seconds after the start of the run."""
    return NOT_KNOWN if time_ms is None else seconds((time_ms - start_ms) / 1000)


def process(identity: str, start_ms: float) -> str:
    """Set `pid@start time in seconds` as a pid and a moment of the run; any other identity stays as it is."""
    pid, _, started = identity.partition("@")
    try:
        started_ms = float(started) * 1000
    except ValueError:
        return identity or NOT_KNOWN
    return f"{pid}, started at {moment(started_ms, start_ms)}"


def processes(identities: str, start_ms: float) -> str:
    """Set several that were struck at once, which are joined by ` + `."""
    return "; ".join(process(one, start_ms) for one in identities.split(" + "))


def date(time_ms: float | None) -> str:
    """Set a moment as date and time in UTC; the empty string when it is not known."""
    if time_ms is None or time_ms <= 0:
        return ""
    try:
        when = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


def moment_of(stamp: str) -> float:
    """Read `YYYYMMDD-HHMMSS` (UTC) as milliseconds since 1970; 0 when it is none."""
    try:
        return datetime.strptime(stamp, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp() * 1000
    except ValueError:
        return 0.0


def words(name: str) -> str:
    """Set an identifier as words: dead_letter becomes dead letter."""
    return name.replace("_", " ")


def median(values: list[float]) -> float | None:
    """Return the value in the middle, or the mean of the two in the middle; None of nothing."""
    return statistics.median(values) if values else None


def quantile(values: list[float], part: float) -> float | None:
    """Return the value below which `part` (0 to 1) of the values lie; None of nothing."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
