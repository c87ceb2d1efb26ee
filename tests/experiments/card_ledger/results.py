"""What a run of the card ledger came to, for machines: `results.json`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from tests.harness.results import Fault, On, Verdict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WayResult(_Frozen):
    """One way, by the service's journal against what was sent.

    Attributes:
        way: its name.
        records: what became of those that were sent: accepted, duplicate, late, malformed.
        records_due: the same, recomputed from the sends.
        complaints: sums of them that are off, epoch by epoch.
        asked: transactions of known cards, each to be charged once.
        calls: that arrived, those included that were refused or answered with 503.
        charged: charges that the accounts hold; of balances that were set, the transactions that they count.
        doubled: charges beyond the first of a transaction.
        doubled_by_replay: of them those of another run of the step than the first.
        doubled_by_retry: of them those that one run made as it got no answer.
        missing: transactions that no charge is there of.
        phantom: charges that nobody asked for.
        balances_wrong: cards whose balance is not the sum of their transactions.
        repeated: calls that the service recognised as made before; nothing happened again.
        repeated_by_replay: of them those of another run of the step than the one that took effect.
        stale: balances that came after a newer one, and were refused.
        refused: other calls that were refused, `unknown_card` above all.
        withheld: calls that took effect and got no answer.
        unavailable: calls that got 503 and took no effect.
        epochs_repeated: publications of an epoch after a failure.
        faults: the kills.
    """

    way: str
    records: dict[str, int]
    records_due: dict[str, int]
    complaints: tuple[str, ...] = ()
    asked: int
    calls: int
    charged: int
    doubled: int
    doubled_by_replay: int
    doubled_by_retry: int
    missing: int
    phantom: int
    balances_wrong: int
    repeated: int
    repeated_by_replay: int
    stale: int
    refused: int
    withheld: int
    unavailable: int
    epochs_repeated: int
    faults: tuple[Fault, ...]


class CardResults(_Frozen):
    """`results.json`: the ways that could be judged, and why the verdict is not a pass where it is none."""

    claim: str
    verdict: Verdict
    on: On = "embedded"
    seed: int
    kills_planned: int
    ways: tuple[WayResult, ...] = ()
    reasons: tuple[str, ...] = ()
    duration_s: float = 0.0
    versions: dict[str, Any] = {}
    git: dict[str, Any] = {}

    def way(self, name: str) -> WayResult:
        """The way of that name. Raises KeyError."""
        for one in self.ways:
            if one.way == name:
                return one
        raise KeyError(name)
