"""Changes of customers, one every five seconds: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
SECOND_MS = 1_000
TIERS = ("free", "pro", "team")


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # The connector was restarted, and reads on from before what it had sent.
            sent.append(draw.choice(sent[-20:]))
            continue
        # No two have the same millisecond, so that one of them is the newest.
        at_ms = START_MS + number * 5 * SECOND_MS - draw.randrange(90) * SECOND_MS + number
        customer = draw.randrange(100)
        change = {
            "id": f"lsn-{number}",
            "event_time_ms": max(at_ms, START_MS + number),
            "op": draw.choice("cuuuuud"),
            "customer": f"customer-{customer}",
            "email": f"{customer}.{number}@example.org",
            "tier": draw.choice(TIERS),
        }
        if kind < 0.06:
            # A replica was behind for half an hour, which is too long.
            change["event_time_ms"] = max(at_ms - 1_800 * SECOND_MS, START_MS + number)
        elif kind < 0.07:
            change["op"] = "truncate"
        sent.append(json.dumps(change))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
