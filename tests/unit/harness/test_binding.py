"""Evidence that was not left as it was bound, or that is of another run, is unknown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers import binding
from tests.harness.evidence import EvidenceError
from tests.harness.history import History, end_of_links, read_history
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricate import CONTROLS, fabricate
from tests.unit.harness.tamper import bind, change_json, change_lines, watch

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


def put_a_file_in(run: Path) -> None:
    (run / "observed" / "more.jsonl").write_text("{}")


def take_a_file_out(run: Path) -> None:
    (run / "observed" / "accepted.concurrent.jsonl").unlink()


def take_the_history_of_another(run: Path) -> None:
    shutil.copy(other_run(run) / "history.jsonl", run / "history.jsonl")


def take_a_control_of_another(run: Path) -> None:
    shutil.rmtree(run / "controls" / FIRST)
    shutil.copytree(other_run(run) / "controls" / FIRST, run / "controls" / FIRST)
    (run / "controls" / FIRST / "bound.json").unlink()
    binding.bind(run)


def take_the_other_control(run: Path) -> None:
    shutil.copy(run / "controls" / SECOND / "sent.jsonl", run / "controls" / FIRST / "sent.jsonl")
    binding.bind(run)


def control_that_was_sent_copies(run: Path) -> None:
    """Its output is double because its input is."""
    path = run / "controls" / FIRST / "sent.jsonl"
    change_lines(path, lambda rows: rows.append({**rows[0], "n": len(rows), "offset": 10_000}))


def control_of_another_commit(run: Path) -> None:
    change_json(run / "controls" / FIRST / "manifest.json", lambda manifest: manifest["git"].update(commit="beef"))


def control_of_another_version(run: Path) -> None:
    change_json(run / "controls" / FIRST / "manifest.json", lambda manifest: manifest["versions"].update(spark="4.1"))


def change_a_control(run: Path) -> None:
    append_a_line(run / "controls" / FIRST)


def claim_another_commit(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["git"]["commit"] = "beef"
    (run / "manifest.json").write_text(json.dumps(manifest))


def forge_the_root(run: Path) -> None:
    told = json.loads((run / "bound.json").read_text())
    (run / "bound.json").write_text(json.dumps({**told, "root": "0" * 64}))


def another_wheel(run: Path) -> None:
    change_json(run / "observed" / "chain.json", lambda chain: chain["epochs"][4].update(wheel_digest="other"))


@pytest.mark.parametrize(
    ("does", "why"),
    [
        (append_a_line, "sent.jsonl is not as it was bound"),
        (change_a_line_of_the_history, "is not linked to those before it"),
        (leave_out_a_line_of_the_history, "is not linked to those before it"),
        (drop_the_links, "has no link"),
        (put_a_file_in, "more.jsonl came in later"),
        (take_a_file_out, "was bound and is gone"),
        (take_the_history_of_another, "history.jsonl is not as it was bound"),
        (take_a_control_of_another, f"control {FIRST}: run is 20261120-180301-8/{FIRST}"),
        (take_the_other_control, "one is a copy of the other"),
        (control_that_was_sent_copies, f"control {FIRST} was sent 1 copies"),
        (control_of_another_commit, f"control {FIRST}: git is"),
        (control_of_another_version, f"control {FIRST}: versions is"),
        (change_a_control, "sent.jsonl is not as it was bound"),
        (claim_another_commit, "manifest.json is not as it was bound"),
        (forge_the_root, "root is another"),
        (another_wheel, "2 different wheel_digests"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_not_of_one_run_is_unknown(run: Path, does: Callable[[Path], Any], why: str) -> None:
    does(run)
    found = judge(run, write=False).oracle("bound")
    assert found.verdict is Verdict.UNKNOWN
    assert any(why in one for one in (found.says, *found.evidence)), found


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
    change_lines(run / "history.jsonl", lambda rows: [row["git"].update(git) for row in rows if "git" in row])
    assert judge(run, write=False).oracle("bound").verdict is Verdict.PASS
    kept = Path(shutil.copytree(run, tmp_path / "docs" / "evidence" / "kept" / run.name))
    assert judge(kept, write=False).oracle("bound").verdict is verdict


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
