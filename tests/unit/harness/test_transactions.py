"""Open transactions, as the broker's tool prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.adapters.transactions import ToolFailedError, open_transactions, parse

HEADER = "TransactionalId                  \tCoordinator\tProducerId\tTransactionState\t"


def row(name: str, state: str) -> str:
    return f"{name:<33}\t0          \t2001      \t{state:<16}\t"


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_a_transaction_under_way_is_open(state: str) -> None:
    assert parse([HEADER, row("counts-accepted-0", state)]) == [f"counts-accepted-0 ({state})"]


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort", "Dead"])
def test_an_ended_transaction_is_not_open(state: str) -> None:
    assert parse([HEADER, row("counts-accepted-0", state)]) == []


def test_a_table_is_read_below_its_header_and_in_its_order() -> None:
    table = [
        "WARN a line of the log that names the state Ongoing",
        "",
        HEADER,
        row("counts-accepted-0", "CompleteCommit"),
        row("counts-accepted-1", "Ongoing"),
        row("counts-user_counts-0", "PrepareAbort"),
        "",
    ]
    assert parse(table) == ["counts-accepted-1 (Ongoing)", "counts-user_counts-0 (PrepareAbort)"]


def test_a_name_is_not_taken_for_a_state() -> None:
    assert parse([HEADER, row("Ongoing", "Empty")]) == []


def test_a_header_alone_means_that_nothing_is_open() -> None:
    assert parse([HEADER]) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'no broker answered' >&2; exit 1", "no broker answered"),
        ("echo 'something else than a table'", "something else than a table"),
    ],
)
def test_a_tool_without_a_table_is_not_taken_for_no_open_transaction(tmp_path: Path, script: str, words: str) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    with pytest.raises(ToolFailedError, match=words):
        open_transactions(java, tmp_path, "localhost:1")


def test_a_tool_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolFailedError, match="no-java"):
        open_transactions(tmp_path / "no-java", tmp_path, "localhost:1")
