"""Orders of five shops, one every five minutes: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
MINUTE_MS = 60_000
SHOPS = ("Bern", "Genf", "Graz", "Linz", "Wien")


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # A till that got no answer sends again.
            sent.append(draw.choice(sent[-20:]))
            continue
        at_ms = START_MS + number * 5 * MINUTE_MS - draw.randrange(30 * MINUTE_MS)
        order = {
            "id": f"order-{number}",
            "event_time_ms": max(at_ms, START_MS),
            "shop": draw.choice(SHOPS),
            "amount": draw.randrange(50, 20_000) / 100,
        }
        if kind < 0.06:
            # This till was offline for a day, which is too long.
            order["event_time_ms"] = max(at_ms - 1_440 * MINUTE_MS, START_MS)
        elif kind < 0.07:
            order["amount"] = draw.choice(["12.50", 12.345, None, -1e12])
        sent.append(json.dumps(order))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
