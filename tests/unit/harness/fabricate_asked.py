"""Makes up what a pipeline says of its sources in a run of `fabricate_gateways`, told from the chain of that run."""

from __future__ import annotations

from tests.unit.harness.fabricated_files import LATENESS_MS, WINDOW_MS, Row


def asked_of(chain: list[Row], history: list[Row]) -> list[Row]:
    """Lines of `asked.jsonl`: a window that is open, one closed without a source, one complete; the metric; the log."""
    declared = {one["epoch"]: one["t"] for one in history if one.get("state") == "declared"}
    ended = max(one["t"] for one in history)
    let_go = next(one for one in chain if one["clock"]["released"])
    closing = next(one for one in chain[let_go["epoch"] :] if newest(one) != newest(chain[one["epoch"] - 1]))
    back = next(one for one in chain[closing["epoch"] :] if not one["clock"]["released"])
    whole = next(one for one in chain[back["epoch"] :] if newest(one) != newest(chain[one["epoch"] - 1]))
    (source,) = let_go["clock"]["released"]
    before = chain[closing["epoch"] - 1]
    state = {**_clock(before), "epoch": None}
    return [
        _metric(declared[before["epoch"]] + 15, before),
        _certificate(declared[closing["epoch"]] - 1, newest(closing), "open", 2, state),
        _metric(declared[closing["epoch"]] + 15, closing),
        _certificate(declared[closing["epoch"] + 1] + 5, newest(closing), "released", 1, _clock(closing)),
        _certificate(min(declared[whole["epoch"]] + 5, ended), newest(whole), "complete", 0, _clock(whole)),
        {"asked": "warning", "driver": "driver-1", "source": source, "time_ms": let_go["clock"]["sources"][source]},
    ]


def newest(record: Row) -> int:
    """Start of the newest window that an epoch finds closed."""
    reached: int = record["watermark_ms"] or 0
    return (reached - LATENESS_MS) // WINDOW_MS * WINDOW_MS - WINDOW_MS


def _clock(record: Row) -> Row:
    clock = record["clock"]
    return {
        "epoch": record["epoch"],
        "watermark_ms": record["watermark_ms"],
        "passed": clock["sources"],
        "released": clock["released"],
    }


def _certificate(at: int, window: int, verdict: str, code: int, state: Row) -> Row:
    says = {"verdict": verdict, "start_ms": window, "end_ms": window + WINDOW_MS, **state, "lost": 0}
    return {"asked": "certificate", "at": at, "window": window, "code": code, "says": says, "words": ""}


def _metric(at: int, record: Row) -> Row:
    return {"asked": "metric", "at": at, "epoch": record["epoch"], "released": len(record["clock"]["released"])}
