"""What is done about the cluster that is found: it is never thrown away or used without knowing whose it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from infra.cluster.record import Action, Record, decide

READY = Record("ready", "node:1", 2)
CREATING = Record("creating", "node:1", 2)
TWO = {"effectively-once-control-plane": "running", "effectively-once-worker": "running"}
ONE_DOWN = {**TWO, "effectively-once-worker": "exited"}


@pytest.mark.parametrize(
    ("known", "containers", "nodes", "action"),
    [
        (None, {}, 2, "create"),
        (READY, {}, 2, "create"),  # somebody deleted the containers
        (CREATING, {}, 2, "create"),
        (None, TWO, 2, "foreign"),
        (None, ONE_DOWN, 1, "foreign"),  # broken, but not ours to remove
        (READY, TWO, 2, "use"),
        (CREATING, TWO, 2, "replace"),  # the creation was interrupted
        (READY, ONE_DOWN, 2, "replace"),  # the engine was restarted
        (READY, dict.fromkeys(TWO, "paused"), 2, "replace"),
        (READY, TWO, 1, "other shape"),
        (READY, TWO, 3, "other shape"),
        (CREATING, TWO, 1, "replace"),
    ],
)
def test_the_table_of_decisions(known: Record | None, containers: dict[str, str], nodes: int, action: Action) -> None:
    assert decide(known, containers, nodes) == action


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    READY.write(path)
    assert Record.read(path) == READY
    replace(READY, published=True).write(path)
    assert Record.read(path) == replace(READY, published=True)


def test_a_record_that_knows_no_published_images_is_of_a_node_image_of_our_own(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"state": "ready", "image": "node:1", "nodes": 2}')
    assert Record.read(path) == READY


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"state": "ready"}', '{"state": "ready", "more": 1}'])
def test_what_cannot_be_read_is_no_record(text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    assert Record.read(path) is None
    path.write_text(text)
    assert Record.read(path) is None
