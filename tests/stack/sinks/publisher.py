"""Publish one epoch as a process of its own, which a test holds at a point and kills there."""

from __future__ import annotations

import json
import sys

from effectively_once import points
from tests.stack.sinks.adapter import Place
from tests.stack.sinks.kinds import KINDS


def main(place: str, epoch: str, ids: str) -> None:
    """Both are JSON."""
    where = Place(**json.loads(place))
    adapter = KINDS[where.kind](where)
    sink = adapter.sink(points.reach)
    points.reach("ids_decided")
    sink.publish(int(epoch), 1, adapter.rows(json.loads(ids)))


if __name__ == "__main__":
    main(*sys.argv[1:])
