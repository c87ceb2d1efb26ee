"""A manifest of another seed or start than its run is complained about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.checkers.origin import contradictions
from tests.harness.evidence import Manifest

START = 1_795_428_252_858
EVENTS = [{"t": START + 7_000, "event": "phase", "phase": "warm-up"}]


def _manifest(**changed: Any) -> Manifest:
    told: dict[str, Any] = {
        "format": 1,
        "run": "20261123-100412-11",
        "claim": "",
        "seed": 11,
        "started_at": START,
        "settings": {},
        "workload": {"kind": "seeded", "sent": 1},
        "faults_planned": 0,
    }
    return Manifest.model_validate({**told, **changed})


@pytest.mark.parametrize(
    "changed", [{}, {"started_at": 0}, {"run": "a name"}, {"run": "20261123-100412-11-2"}, {"started_at": START + 900}]
)
def test_what_agrees_is_well(changed: dict[str, Any]) -> None:
    assert contradictions(_manifest(**changed), EVENTS) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seed": 12}, "says seed 12"),
        ({"run": "20261123-100412-12"}, "says seed 11"),
        ({"started_at": START - 1_000_000}, "its name"),
        ({"run": "20261123-110412-11"}, "its name"),
        ({"run": "20261399-100412-11"}, "its name"),
        ({"started_at": START + 7_001}, "1 ms after its first event"),
    ],
)
def test_what_contradicts_is_told(changed: dict[str, Any], why: str) -> None:
    assert any(why in one for one in contradictions(_manifest(**changed), EVENTS))
