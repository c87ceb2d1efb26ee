"""Evidence that was not left as it was bound, or that is of another run, is unknown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers import binding
from tests.harness.evidence import EvidenceError
from tests.harness.history import History, end_of_links, read_history
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricate import CONTROLS, fabricate
from tests.unit.harness.judged import PASS, UNKNOWN, expect, oracle_of
from tests.unit.harness.tamper import Change, bind, change_json, document, history, manifest, sent, watch

FIRST, SECOND = CONTROLS


def other_run(run: Path) -> Path:
    return bind(watch(fabricate(run.parent / "20261120-180301-8", seed=8)))


def append_a_line(run: Path) -> None:
    (run / "sent.jsonl").write_bytes((run / "sent.jsonl").read_bytes() + b"{}\n")


def change_a_line_of_the_history(run: Path) -> None:
    path = run / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"warm-up"', b'"warm-Up"'))


def leave_out_a_line_of_the_history(run: Path) -> None:
    path = run / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    binding.bind(run)


def drop_the_links(run: Path) -> None:
    path = run / "history.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in read_history(path)))
    binding.bind(run)


def take_a_control_of_another(run: Path) -> None:
    shutil.rmtree(run / "controls" / FIRST)
    shutil.copytree(other_run(run) / "controls" / FIRST, run / "controls" / FIRST)
    (run / "controls" / FIRST / "bound.json").unlink()
    binding.bind(run)


def take_the_other_control(run: Path) -> None:
    shutil.copy(run / "controls" / SECOND / "sent.jsonl", run / "controls" / FIRST / "sent.jsonl")
    binding.bind(run)


def claim_another_commit(run: Path) -> None:
    told = json.loads((run / "manifest.json").read_text())
    told["git"]["commit"] = "beef"
    (run / "manifest.json").write_text(json.dumps(told))


def forge_the_root(run: Path) -> None:
    told = json.loads((run / "bound.json").read_text())
    (run / "bound.json").write_text(json.dumps({**told, "root": "0" * 64}))


def of_control(change: Change) -> Change:
    return lambda run: change(run / "controls" / FIRST)


SENT_TWICE = sent(lambda rows: rows.append({**rows[0], "n": len(rows), "offset": 10_000}))
"""The output of a control is double because its input is."""
OTHER_WHEEL = document("chain", lambda chain: chain["epochs"][4].update(wheel_digest="other"))
UNBOUND: dict[str, tuple[Change, str]] = {
    "a line more": (append_a_line, "sent.jsonl is not as it was bound"),
    "another line of the history": (change_a_line_of_the_history, "is not linked to those before it"),
    "a line of the history less": (leave_out_a_line_of_the_history, "is not linked to those before it"),
    "no links": (drop_the_links, "has no link"),
    "a file more": (
        lambda run: (run / "observed" / "more.jsonl").write_text("{}"),
        "more.jsonl came in later",
    ),
    "a file less": (
        lambda run: (run / "observed" / "accepted.concurrent.jsonl").unlink(),
        "was bound and is gone",
    ),
    "the history of another run": (
        lambda run: shutil.copy(other_run(run) / "history.jsonl", run / "history.jsonl"),
        "history.jsonl is not as it was bound",
    ),
    "a control of another run": (take_a_control_of_another, f"control {FIRST}: run is 20261120-180301-8/{FIRST}"),
    "a control that is another's copy": (take_the_other_control, "one is a copy of the other"),
    "a control that was sent copies": (of_control(SENT_TWICE), f"control {FIRST} was sent 1 copies"),
    "a control of another commit": (
        of_control(manifest(lambda told: told["git"].update(commit="beef"))),
        f"control {FIRST}: git is",
    ),
    "a control of another version": (
        of_control(manifest(lambda told: told["versions"].update(spark="4.1"))),
        f"control {FIRST}: versions is",
    ),
    "a line more of a control": (of_control(append_a_line), "sent.jsonl is not as it was bound"),
    "another commit": (claim_another_commit, "manifest.json is not as it was bound"),
    "another root": (forge_the_root, "root is another"),
    "another wheel": (OTHER_WHEEL, "2 different wheel_digests"),
}


@pytest.mark.parametrize("what", UNBOUND)
@pytest.mark.thinned(3)
def test_what_is_not_of_one_run_is_unknown(run: Path, what: str) -> None:
    does, why = UNBOUND[what]
    does(run)
    expect(run, UNKNOWN, "bound", why)


def test_judging_and_drawing_do_not_unbind(run: Path) -> None:
    root = binding.root_of(run)
    for _ in range(2):
        results = judge(run)
        (run / "report.html").write_text("drawn")
        assert results.oracle("bound").verdict is Verdict.PASS, results.reasons
        assert results.root == root
    assert binding.bind(run) == root


def test_a_run_that_was_never_bound_is_unknown_and_says_so(run: Path) -> None:
    (run / binding.NAME).unlink()
    results = judge(run, write=False)
    assert results.root is None
    assert binding.UNBOUND in results.oracle("bound").says


@pytest.mark.parametrize(("git", "verdict"), [({"dirty": True}, Verdict.UNKNOWN), ({"dirty": False}, Verdict.PASS)])
def test_what_is_kept_as_evidence_is_of_a_clean_tree(run: Path, tmp_path: Path, git: Any, verdict: Verdict) -> None:
    for path in (run / "manifest.json", *run.glob("controls/*/manifest.json")):
        change_json(path, lambda manifest: manifest["git"].update(git))
    history(lambda rows: [row["git"].update(git) for row in rows if "git" in row])(run)
    expect(run, PASS, "bound")
    kept = Path(shutil.copytree(run, tmp_path / "docs" / "evidence" / "kept" / run.name))
    assert oracle_of(kept, "bound").verdict is verdict


def test_a_history_that_is_opened_again_goes_on_with_its_chain(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for phase in ("steady", "broken off"):
        with History(path) as history:
            history.record("phase", phase=phase)
            history.record("sent", acknowledged=1, note='","link":"0123456789abcdef"}')
    assert len(end_of_links(path)) == 16
    assert [event["event"] for event in read_history(path)] == ["phase", "sent"] * 2
    assert "link" not in read_history(path)[0]
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        path.write_bytes(flipped)
        with pytest.raises(EvidenceError):
            end_of_links(path)
