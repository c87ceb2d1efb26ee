"""The second judge comes to the numbers of the first, of a run that passes and of every sort of offence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.case import Case
from tests.harness.checkers.reference import replay
from tests.harness.evidence import SINKS, EpochRecord
from tests.harness.judge.verdict import judge
from tests.harness.results import Answer, Verdict
from tests.harness.sends import crc_of
from tests.second_judge.program import TOOL, ask
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.recorded_run import FABRICATED, RECORDED, RUNS, on_each_run, unpacked
from tests.unit.harness.tamper import bind, document, lines_of, observed, sent, watch

LINES = 400
Change = Callable[[list[Row]], Any]


@pytest.fixture(scope="module", params=RUNS)
def clean(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that passes; not to be changed."""
    folder = tmp_path_factory.mktemp("clean")
    if request.param != FABRICATED:
        return unpacked(RECORDED[0].with_name(request.param), folder)
    return bind(watch(fabricate(folder / "20261120-170301-7")))


@pytest.fixture
def run(clean: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be tampered with."""
    return Path(shutil.copytree(clean, tmp_path / clean.name))


def agree(run: Path) -> Answer:
    """Both judges come to the same numbers; the second one's answer."""
    answer, first = ask(run), judge(run, write=False)
    bare = {sink: output.model_copy(update={"causes": {}}) for sink, output in first.outputs.items()}
    assert {sink: output for sink, output in answer.sinks.items() if sink in bare} == bare, answer.reasons
    return answer


@on_each_run
def test_a_run_that_passes_passes(clean: Path) -> None:
    answer = agree(clean)
    assert (answer.verdict, answer.reasons) == (Verdict.PASS, ())
    assert {*SINKS} <= {*answer.sinks}
    for control in clean.glob("controls/*"):
        assert agree(control).verdict is Verdict.FAIL


def _twice(rows: list[Row]) -> None:
    rows.insert(6, {**rows[5], **({"offset": rows[-1]["offset"] + 9} if "offset" in rows[5] else {})})


OFFENCES: dict[str, Change] = {
    "missing": lambda rows: rows.pop(5),
    "duplicated": _twice,
    "phantom": lambda rows: rows[5].update(id="nobody", user="nobody", window_start_ms=1, source=["events", 0, 10**9]),
    "corrupted": lambda rows: rows[5].update(epoch=rows[5]["epoch"] + 1),
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("sort", OFFENCES)
@pytest.mark.thinned(3)
def test_an_offence_in_a_sink_is_counted_alike(run: Path, sink: str, sort: str) -> None:
    observed(sink, OFFENCES[sort])(run)
    answer = agree(run)
    assert answer.verdict is Verdict.FAIL
    assert getattr(answer.sinks[sink], sort) == 1
    assert any(reason.startswith(f"{sink}: ") for reason in answer.reasons)


def _other_payload(rows: list[Row]) -> None:
    rows[5]["payload"] += "!"
    rows[5]["crc"] = crc_of(*(rows[5][name] for name in ("id", "user", "event_time_ms", "payload")))


FIELDS: dict[str, tuple[str, Change]] = {
    "a payload with its checksum": ("accepted", _other_payload),
    "a number in another form": ("user_counts", lambda rows: rows[5].update(count=float(rows[5]["count"]))),
    "a count": ("global_counts", lambda rows: rows[2].update(count=rows[2]["count"] + 1)),
    "bytes of a dead letter": ("dead_letter", lambda rows: rows[0].update(value=rows[0]["value"] + " ")),
    "a dead letter's reason": ("dead_letter", lambda rows: rows[0].update(reason="bad_user")),
}


@pytest.mark.parametrize("what", FIELDS)
def test_a_field_that_was_altered_is_seen(run: Path, what: str) -> None:
    sink, change = FIELDS[what]
    observed(sink, change)(run)
    assert agree(run).sinks[sink].corrupted == 1


def _range(chain: Any) -> None:
    spans = chain["epochs"][2]["ranges"]["events"]
    spans[min(spans)][1] += 1


def _watermark(chain: Any) -> None:
    chain["epochs"][3]["watermark_ms"] -= 1


CHAINS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a watermark": (_watermark, "due"),
    "a range": (_range, "is read over"),
    "a count": (lambda chain: chain["epochs"][3]["counts"].update(duplicate=77), "duplicate is 77"),
    "an epoch": (lambda chain: chain["epochs"].pop(1), "is the one of place 1"),
}


@pytest.mark.parametrize("what", CHAINS)
def test_a_chain_that_was_altered_fails(run: Path, what: str) -> None:
    change, said = CHAINS[what]
    document("chain", change)(run)
    answer = ask(run)
    assert answer.verdict is Verdict.FAIL
    assert any(reason.startswith("chain: ") and said in reason for reason in answer.reasons)


def test_a_record_that_no_epoch_read_fails(run: Path) -> None:
    last = max(row["offset"] for row in lines_of(run / "sent.jsonl") if row["partition"] == 0)
    sent(lambda rows: rows.append({**rows[0], "partition": 0, "offset": last + 1, "kind": "resent"}))(run)
    assert "chain: 1 records lie in no epoch's ranges" in ask(run).reasons


@pytest.mark.parametrize("record", [False, True])
def test_a_gap_is_a_break_unless_the_chain_records_that_it_was_given_up(run: Path, record: bool) -> None:
    """Of both judges: what they count as given up has to be the same."""
    start, end = json.loads((run / "observed" / "chain.json").read_text())["epochs"][2]["ranges"]["events"]["0"]
    inside = [row for row in lines_of(run / "sent.jsonl") if row["partition"] == 0 and start <= row["offset"] < end]

    def change(chain: Any) -> None:
        chain["epochs"][2]["ranges"]["events"]["0"][0] = end
        if record:
            chain["epochs"][2]["lost"] = {"offsets": {"events": {"0": [start, end]}}, "at_ms": 1}

    document("chain", change)(run)
    answer = agree(run)
    assert answer.lost == (len(inside) if record else 0)
    assert record != any("is read over" in reason for reason in answer.reasons)
    # Of each sort it tells the first five: without the record, what such a gap makes of the epochs after it.
    assert not (record and any("records lie in no epoch's ranges" in reason for reason in answer.reasons))
    told = judge(run, write=False, second=ask).oracle("second judge")
    assert "given up" not in told.says, told


@pytest.mark.parametrize("name", ["sent.jsonl", "observed/accepted.jsonl", "observed/chain.json", "manifest.json"])
def test_evidence_that_is_cut_short_or_gone_is_unknown(run: Path, name: str) -> None:
    path = run / name
    path.write_bytes(path.read_bytes()[:-20])
    assert ask(run).verdict is Verdict.UNKNOWN
    path.unlink()
    assert ask(run).verdict is Verdict.UNKNOWN


def test_a_send_that_is_not_what_its_checksum_says_is_unknown(run: Path) -> None:
    whole = next(number for number, row in enumerate(lines_of(run / "sent.jsonl")) if row["reason"] is None)
    sent(lambda rows: rows[whole].update(user="somebody"))(run)
    assert ask(run).verdict is Verdict.UNKNOWN


def _other(run: Path) -> Answer:
    answer = ask(run)
    accepted = answer.sinks["accepted"].model_copy(update={"missing": 1})
    return answer.model_copy(update={"verdict": Verdict.FAIL, "sinks": {**answer.sinks, "accepted": accepted}})


def _complains(run: Path) -> Answer:
    return ask(run).model_copy(update={"verdict": Verdict.FAIL, "reasons": ("chain: epoch 3",)})


def _silent(run: Path) -> Answer:
    raise ValueError("no answer")


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (_other, "accepted: missing is 0 here and 1 there"),
        (_complains, "it says fail: chain: epoch 3"),
        (_silent, "no answer"),
    ],
)
def test_a_run_that_both_do_not_judge_alike_is_unknown(
    clean: Path, second: Callable[[Path], Answer], says: str
) -> None:
    assert judge(clean, write=False, second=ask).verdict is Verdict.PASS
    results = judge(clean, write=False, second=second)
    assert results.verdict is Verdict.UNKNOWN
    assert says in results.oracle("second judge").says


def test_it_is_small_and_of_the_standard_library() -> None:
    sources = [path.read_text() for path in TOOL.folder.glob("*.go")]
    assert sum(len(source.splitlines()) for source in sources) <= LINES
    assert "require" not in (TOOL.folder / "go.mod").read_text()


def _with_clocks(run: Path) -> None:
    """Give each epoch a clock and the watermark that the first judge says is due then."""
    loaded = Case(run)
    settings, partitions = loaded.manifest.settings, sorted({send.partition for send in loaded.sends})

    def change(chain: Any) -> None:
        known: list[EpochRecord] = []
        for number, epoch in enumerate(chain["epochs"]):
            # The last partition is idle now and then.
            epoch["clock"] = {"shown": {}, "idle": {"events": [str(partitions[-1])]} if number % 3 == 2 else {}}
            known.append(EpochRecord.model_validate({**epoch, "watermark_ms": None}))
            due = replay(loaded.sends, known, settings.window_ms, settings.lateness_ms).numbers[-1].watermark_due_ms
            epoch["watermark_ms"] = due
            known[-1] = EpochRecord.model_validate(epoch)

    document("chain", change)(run)


def test_time_by_partition_is_judged_alike(run: Path) -> None:
    _with_clocks(run)
    assert not [reason for reason in ask(run).reasons if "watermark" in reason]
    document("chain", _watermark)(run)
    assert [reason for reason in ask(run).reasons if "epoch 3: the watermark" in reason]


def test_time_that_is_forced_is_judged_alike(run: Path) -> None:
    """An epoch goes on to a time that a partition is behind."""
    _with_clocks(run)

    def force(chain: Any) -> None:
        third = chain["epochs"][3]
        third["clock"]["forced_ms"] = third["watermark_ms"] = third["watermark_ms"] + 1

    document("chain", force)(run)
    assert not [reason for reason in ask(run).reasons if "epoch 3: the watermark" in reason]
    document("chain", lambda chain: chain["epochs"][3]["clock"].pop("forced_ms"))(run)
    assert [reason for reason in ask(run).reasons if "epoch 3: the watermark" in reason]


@pytest.mark.parametrize("stated", [None, True, False])
def test_an_epoch_that_reads_nothing_is_judged_alike(run: Path, stated: bool | None) -> None:
    """It closes windows, unless an operator gave it up; where the chain does not say so, one did."""
    loaded = Case(run)
    settings = loaded.manifest.settings

    def end_with(watermark_ms: int | None) -> None:
        def change(chain: Any) -> None:
            before = chain["epochs"][:4][-1]
            ends = {name: [end, end] for name, (_, end) in before["ranges"]["events"].items()}
            before.pop("abandoned", None)
            empty = {
                **before,
                "epoch": 4,
                "ranges": {"events": ends},
                "counts": dict.fromkeys(before["counts"], 0),
                "watermark_ms": watermark_ms,
            } | ({} if stated is None else {"abandoned": stated})
            chain["epochs"] = [*chain["epochs"][:4], empty]
            if stated is None:
                chain["head"]["format"] = 3

        document("chain", change)(run)

    def complaints() -> list[str]:
        return [reason for reason in ask(run).reasons if reason.startswith("chain: epoch 4: ")]

    end_with(0)
    epochs = Case(run).chain.epochs
    due = replay(loaded.sends, epochs, settings.window_ms, settings.lateness_ms).numbers[-1].watermark_due_ms
    assert (due == epochs[-2].watermark_ms) == (stated is not False), "the test is vacuous"
    end_with(due)
    assert complaints() == []
    end_with(due + 1 if due else 1)
    assert "the watermark is" in complaints()[0]
