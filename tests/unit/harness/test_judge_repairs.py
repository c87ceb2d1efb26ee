"""An epoch that is finished as shown and the one that repairs it hold every record once; else both judges fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.case import Case
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.second_judge.program import ask
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_both, expect_run
from tests.unit.harness.tamper import (
    Change,
    bind,
    document,
    epoch,
    first_of,
    history,
    lines_of,
    manifest,
    observed,
    watch,
)

AS_SHOWN, REPAIR = 5, 6


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of which one shard had shown too little of an epoch; not to be changed."""
    return bind(watch(fabricate(tmp_path_factory.mktemp("repaired") / "20261124-090000-7", repaired=AS_SHOWN)))


def test_a_run_that_was_repaired_passes(pristine: Path) -> None:
    expect_both(pristine, PASS)
    as_shown, repair = Case(pristine).reference.numbers[AS_SHOWN : REPAIR + 1]
    assert as_shown.in_ > 0
    assert repair.accepted > 0
    assert repair.duplicate > 0, "the test is vacuous: a copy is left to the repair"


def _twice(rows: list[Any]) -> None:
    rows.append({**rows[first_of(rows, AS_SHOWN)], "epoch": REPAIR, "offset": rows[-1]["offset"] + 9})


def _no_repair(chain: Any) -> None:
    repair = chain["epochs"][REPAIR]
    del repair["repairs"], repair["shown"]


def _more_shown(run: Path) -> None:
    """The epoch is said to have shown a row that its repair published."""
    rows = lines_of(run / "observed" / "accepted.jsonl")
    row = rows[first_of(rows, REPAIR)]
    pin = {"epoch": AS_SHOWN, "shard": row["partition"], "source": row["source"]}
    observed("shown", lambda pins: pins.append(pin))(run)


def _of_repair(**fields: Any) -> Change:
    return observed("accepted", lambda rows: rows[first_of(rows, REPAIR)].update(fields))


OFFENCES: dict[str, Change] = {
    "the repair leaves a row out": observed("accepted", lambda rows: rows.pop(first_of(rows, REPAIR))),
    "the repair publishes what was shown": observed("accepted", _twice),
    "the repair publishes something else": _of_repair(id="nobody"),
    "a row of the repair is told of the epoch before": _of_repair(epoch=AS_SHOWN),
    "nobody repairs it": document("chain", _no_repair),
    "another epoch is repaired": epoch(REPAIR, repairs=AS_SHOWN - 1),
    "the repair closes windows": epoch(REPAIR, watermark_ms=10**15),
    "a row is shown that the repair published": _more_shown,
    "less is shown than was published": observed("shown", lambda pins: pins.pop()),
}


@pytest.mark.parametrize("what", OFFENCES)
@pytest.mark.thinned(3)
def test_a_repair_that_does_not_add_up_fails(run: Path, what: str) -> None:
    OFFENCES[what](run)
    expect_both(run, FAIL)


def _wide(chain: Any) -> None:
    ranges = chain["epochs"][REPAIR]["ranges"]["events"]
    ranges["0"][1] += 1
    chain["epochs"][REPAIR + 1]["ranges"]["events"]["0"][0] += 1


CHAINS: dict[str, tuple[Change, str]] = {
    "ranges of its own": (document("chain", _wide), "has ranges of its own"),
    "another pin": (epoch(REPAIR, shown={}), f"leaves out other rows than epoch {AS_SHOWN} shows"),
    "no repair": (document("chain", _no_repair), "is shown, and no epoch repairs it"),
    "pins of no epoch": (
        observed("shown", lambda pins: pins.append({"epoch": 1, "shard": 0, "source": ["events", 0, 1]})),
        "epoch 1 pins nothing of shard 0",
    ),
    "another row": (observed("shown", lambda pins: pins[0].update(source=["events", 0, 0])), "outside of its ranges"),
}


@pytest.mark.parametrize("what", CHAINS)
def test_the_chain_says_what_a_repair_lacks(run: Path, what: str) -> None:
    change, said = CHAINS[what]
    change(run)
    expect(run, FAIL, "chain", said)


def test_without_what_was_shown_nothing_can_be_said(run: Path) -> None:
    (run / "observed" / "shown.jsonl").unlink()
    expect(bind(run), UNKNOWN, "chain")
    assert ask(run).verdict is UNKNOWN


def test_rows_that_no_sink_tells_the_places_of_are_not_judged(run: Path) -> None:
    pinned = json.loads((run / "observed" / "chain.json").read_text())["epochs"][AS_SHOWN]["shown"]
    pinned["0"]["ids"] = {"rows": 1, "digest": "0" * 32}
    epoch(AS_SHOWN, shown=pinned)(run)
    expect(run, UNKNOWN, "chain")


WORDS = "SinkError: a repeat of epoch 5 decided otherwise"
ENDED = [{"state": "ended", "pid": pid, "says": WORDS} for pid in (1, 2)]


def _tell_of_drivers(*drivers: dict[str, Any]) -> Change:
    """Drivers that are told of before the epoch that was finished as shown was published."""

    def change(rows: list[Any]) -> None:
        at = next(at for at, row in enumerate(rows) if row.get("epoch") == AS_SHOWN and row.get("state") == "published")
        rows[at:at] = [{"t": rows[at]["t"], "event": "driver", **one} for one in drivers]

    return history(change)


REPAIRED = {"state": "repaired", "pid": 2, "says": "the next driver finishes epoch 5 as it is shown"}


@pytest.mark.parametrize(
    ("drivers", "verdict", "says"),
    [
        ((*ENDED, REPAIRED), Verdict.PASS, "epoch 5 could not be repeated: an operator had it finished as it was"),
        (ENDED, Verdict.FAIL, "the pipeline stopped for good: 2 drivers were refused"),
        ((REPAIRED, *ENDED), Verdict.FAIL, "the pipeline stopped for good: 2 drivers were refused"),
    ],
)
def test_refused_drivers_are_no_end_where_an_epoch_was_repaired_after_them(
    run: Path, drivers: tuple[dict[str, Any], ...], verdict: Verdict, says: str
) -> None:
    _tell_of_drivers(*drivers)(run)
    results = judge(run, write=False, second=ask)
    assert results.verdict is verdict, results.reasons
    assert results.oracle("goes on").says.startswith(says)


def test_a_way_out_that_the_chain_does_not_have_is_none(tmp_path: Path) -> None:
    run = bind(watch(fabricate(tmp_path / "20261124-090000-7")))
    manifest(lambda told: told["settings"].update(repair="True"))(run)
    assert judge(run, write=False).oracle("goes on").says == "the way out was not tried: no epoch was repaired"
    _tell_of_drivers(*ENDED, REPAIRED)(run)
    expect_run(run, UNKNOWN, "goes on", "has no epoch that repairs another")
