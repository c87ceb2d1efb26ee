"""Payments by card, one every twenty seconds: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
SECOND_MS = 1_000
COUNTRIES = ("AT", "CH", "DE", "FR", "IT")


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # A terminal that got no answer sends again.
            sent.append(draw.choice(sent[-10:]))
            continue
        # No two have the same millisecond, so that one of them is the first.
        at_ms = START_MS + number * 20 * SECOND_MS - draw.randrange(90) * SECOND_MS + number
        card = draw.randrange(20)
        payment = {
            "id": f"payment-{number}",
            "event_time_ms": max(at_ms, START_MS + number),
            "card": f"card-{card}",
            # Card 13 is used everywhere at once.
            "merchant": f"merchant-{draw.randrange(500 if card == 13 else 8)}",
            "country": draw.choice(COUNTRIES) if card == 13 else COUNTRIES[card % 5],
            "amount": draw.randrange(100, 30_000) / 100,
        }
        if kind < 0.06:
            # This terminal was offline for an hour, which is too long.
            payment["event_time_ms"] = max(at_ms - 3_600 * SECOND_MS, START_MS + number)
        elif kind < 0.07:
            payment["merchant"] = draw.choice([None, 17])
        sent.append(json.dumps(payment))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
