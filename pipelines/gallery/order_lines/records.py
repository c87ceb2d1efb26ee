"""Orders with lines, one every half minute: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
SECOND_MS = 1_000
PRODUCTS = ("bread", "butter", "coffee", "honey", "jam", "milk", "tea")


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # An app that got no answer sends again.
            sent.append(draw.choice(sent[-20:]))
            continue
        at_ms = START_MS + number * 30 * SECOND_MS - draw.randrange(120 * SECOND_MS)
        chosen = draw.sample(PRODUCTS, draw.randrange(1, 5))
        order = {
            "id": f"order-{number}",
            "event_time_ms": max(at_ms, START_MS),
            "customer": f"customer-{draw.randrange(200)}",
            "lines": [{"product": product, "quantity": draw.randrange(1, 6)} for product in chosen],
        }
        if kind < 0.06:
            # This app was offline for three hours, which is too long.
            order["event_time_ms"] = max(at_ms - 10_800 * SECOND_MS, START_MS)
        elif kind < 0.07:
            order["lines"] = []
        elif kind < 0.09:
            order["lines"] = [{"product": "gift card", "quantity": 0}, {"product": "tea", "quantity": 1}]
        sent.append(json.dumps(order))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
