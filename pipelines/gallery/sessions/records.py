"""Views of pages by user, one every twenty seconds: `python records.py --records 1000 --seed 7 > records.jsonl`."""

import argparse
import json
import random

START_MS = 1_772_323_200_000  # 2026-03-01, 0:00 UTC
SECOND_MS = 1_000
PAGES = ("/", "/help", "/news", "/prices", "/team")


def lines(records: int, seed: int) -> list[str]:
    """Return so many records in the order in which they are sent; a seed always gives the same."""
    draw = random.Random(seed)
    sent: list[str] = []
    for number in range(records):
        kind = draw.random()
        if sent and kind < 0.05:
            # A browser that got no answer sends again.
            sent.append(draw.choice(sent[-10:]))
            continue
        at_ms = START_MS + number * 20 * SECOND_MS - draw.randrange(120 * SECOND_MS)
        view = {
            "id": f"view-{number}",
            "event_time_ms": max(at_ms, START_MS),
            "user": f"user-{draw.randrange(40)}",
            "page": draw.choice(PAGES),
        }
        if kind < 0.06:
            # This browser was closed for two hours, which is too long.
            view["event_time_ms"] = max(at_ms - 7_200 * SECOND_MS, START_MS)
        elif kind < 0.07:
            view["user"] = draw.choice([None, 7])
        sent.append(json.dumps(view))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
