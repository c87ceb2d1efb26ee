"""Readings of thermometers, one every five seconds: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
YEAR_2100_MS = 4_102_444_800_000
SECOND_MS = 1_000
SITES = {"harbour": 8.0, "summit": -12.0, "valley": 3.0}


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # A device that got no answer sends again.
            sent.append(draw.choice(sent[-20:]))
            continue
        at_ms = START_MS + number * 5 * SECOND_MS - draw.randrange(60 * SECOND_MS)
        site = draw.choice([*SITES])
        reading = {
            "id": f"reading-{number}",
            "event_time_ms": max(at_ms, START_MS),
            "site": site,
            "device": "test-1" if draw.random() < 0.03 else f"device-{draw.randrange(1, 6)}",
            "celsius": round(draw.gauss(SITES[site], 2), 3),
        }
        if kind < 0.06:
            # This device had no connection for half an hour, which is too long.
            reading["event_time_ms"] = max(at_ms - 1_800 * SECOND_MS, START_MS)
        elif kind < 0.07:
            reading["event_time_ms"] = YEAR_2100_MS
        elif kind < 0.08:
            reading["celsius"] = draw.choice([-273.15, 999.9, None])
        sent.append(json.dumps(reading))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
