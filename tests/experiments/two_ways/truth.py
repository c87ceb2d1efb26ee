"""What the output has to be, reckoned record by record from the sends, without any of the operators' code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

MODULUS = 2_147_483_647


def reckon(sends: Iterable[Mapping[str, Any]], operators: int) -> dict[str, int]:
    """Id -> amount behind the last operator.

    Args:
        sends: what the broker acknowledged: `id`, `user`, `payload`, `partition`, `offset`. A user's records are in
            one partition, whose order is that in which every operator takes them.
        operators: how many there are.

    """
    counts: list[Counter[str]] = [Counter() for _ in range(operators)]
    sums: list[Counter[str]] = [Counter() for _ in range(operators)]
    found = {}
    for row in sorted(sends, key=lambda one: (one["partition"], one["offset"])):
        amount, user = int(row["payload"]), row["user"]
        for count, total in zip(counts, sums, strict=True):
            count[user] += 1
            total[user] = (total[user] + amount) % MODULUS
            amount = (amount + total[user] + count[user]) % MODULUS
        found[row["id"]] = amount
    return found
