"""Payments in four currencies, one every half minute: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
SECOND_MS = 1_000
CURRENCIES = ("CHF", "EUR", "GBP", "USD")


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # A till that got no answer sends again.
            sent.append(draw.choice(sent[-10:]))
            continue
        at_ms = START_MS + number * 30 * SECOND_MS - draw.randrange(90 * SECOND_MS)
        payment = {
            "id": f"payment-{number}",
            "event_time_ms": max(at_ms, START_MS),
            "shop": f"shop-{draw.randrange(5)}",
            "currency": draw.choice(CURRENCIES),
            "amount": draw.randrange(100, 30_000) / 100,
        }
        if kind < 0.06:
            # This till was offline for three hours, which is too long.
            payment["event_time_ms"] = max(at_ms - 10_800 * SECOND_MS, START_MS)
        elif kind < 0.08:
            payment["currency"] = draw.choice(["XXX", None])
        sent.append(json.dumps(payment))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
