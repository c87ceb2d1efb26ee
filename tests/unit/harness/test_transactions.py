"""Open transactions, as the broker's tool prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.adapters.transactions import ToolFailedError, open_transactions, parse

HEADER = "TransactionalId                  \tCoordinator\tProducerId\tTransactionState\t"


def row(name: str, state: str) -> str:
    return f"{name:<33}\t0          \t2001      \t{state:<16}\t"


@pytest.mark.parametrize(
    ("state", "is_open"),
    [
        *((state, True) for state in ("Ongoing", "PrepareCommit", "PrepareAbort")),
        *((state, False) for state in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")),
    ],
)
def test_a_transaction_under_way_is_open_and_an_ended_one_is_not(state: str, is_open: bool) -> None:
    assert parse([HEADER, row("counts-accepted-0", state)]) == [f"counts-accepted-0 ({state})"] * is_open


def test_a_table_is_read_below_its_header_and_in_its_order() -> None:
    table = [
        "WARN a line of the log that names the state Ongoing",
        "",
        HEADER,
        row("counts-accepted-0", "CompleteCommit"),
        row("counts-accepted-1", "Ongoing"),
        row("counts-user_counts-0", "PrepareAbort"),
        row("Ongoing", "Empty"),
        "",
    ]
    assert parse(table) == ["counts-accepted-1 (Ongoing)", "counts-user_counts-0 (PrepareAbort)"]
    assert parse([HEADER]) == [], "nothing is open"


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
