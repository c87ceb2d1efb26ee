"""Views of pages, one every ten seconds: `python records.py --records 1000 --seed 7 > records.jsonl`."""

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
            sent.append(draw.choice(sent[-20:]))
            continue
        at_ms = START_MS + number * 10 * SECOND_MS - draw.randrange(60 * SECOND_MS)
        # One page after the other is in the news, for half an hour.
        seen = PAGES[number // 180 % len(PAGES)] if draw.random() < 0.5 else draw.choice(PAGES)
        view = {
            "id": f"view-{number}",
            "event_time_ms": max(at_ms, START_MS),
            "page": seen,
            "visitor": f"visitor-{draw.randrange(100)}",
        }
        if kind < 0.06:
            # This browser was closed for an hour, which is too long.
            view["event_time_ms"] = max(at_ms - 3_600 * SECOND_MS, START_MS)
        elif kind < 0.07:
            view["page"] = draw.choice([None, 404])
        sent.append(json.dumps(view))
    return sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print("\n".join(lines(asked.records, asked.seed)))
