"""Metrics: an epoch's record as samples, served where the environment says."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from effectively_once.driver.metrics import OUTCOMES, VARIABLE, Metrics
from effectively_once.epoch.letter_reasons import MOST, OTHER
from effectively_once.errors import SettingsError
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.epoch_record import Counts
from tests.unit.ledger.samples import declaration, record_of

MS = {"ids": 120, "accepted": 40, "total": 900}


def _sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"effectively_once_{name}", {"pipeline": "uc", **labels})


def test_an_epoch_is_counted_by_outcome_and_step() -> None:
    metrics = Metrics("uc")
    counts = Counts.model_validate({"in": 10, "accepted": 6, "duplicate": 2, "late": 1, "malformed": 1})
    left_out = {"bot": 2, "test": 1}
    record = record_of(declaration(4), generation=3).model_copy(update={"counts": counts, "filtered": left_out})
    metrics.count_epoch(record, MS, repeat=False)
    metrics.count_epoch(record, MS, repeat=True)
    assert [_sample(metrics, "rows_total", outcome=name) for name in OUTCOMES] == [12, 4, 2, 2, 6]
    assert [_sample(metrics, "filtered_total", reason=name) for name in left_out] == [4, 2]
    assert _sample(metrics, "epochs_total", repeat="true") == 1
    assert _sample(metrics, "step_seconds_total", step="ids") == pytest.approx(0.24)
    assert _sample(metrics, "step_seconds_total", step="total") is None
    assert _sample(metrics, "epoch_seconds_bucket", le="1.0") == 2
    assert _sample(metrics, "epoch_seconds_bucket", le="0.75") == 0
    assert (_sample(metrics, "last_epoch"), _sample(metrics, "generation")) == (4, 3)
    assert _sample(metrics, "watermark_seconds") == record.watermark_ms / 1000  # type: ignore[operator]


def test_dead_letters_are_counted_by_reason_and_a_driver_tells_so_many_reasons_at_most() -> None:
    metrics, record = Metrics("uc"), record_of(declaration(4))
    metrics.count_epoch(record, MS, {"late": 3, "bad_time": 1}, repeat=False)
    metrics.count_epoch(record, MS, {"late": 2}, repeat=False)
    assert [_sample(metrics, "dead_letters_total", reason=name) for name in ("late", "bad_time")] == [5, 1]
    for number in range(MOST):
        metrics.count_epoch(record, MS, {f"n{number}": 1}, repeat=False)
    assert _sample(metrics, "dead_letters_total", reason=OTHER) == 2
    (family,) = [one for one in metrics.registry.collect() if one.name == "effectively_once_dead_letters"]
    assert len([one for one in family.samples if one.name.endswith("_total")]) == MOST + 1


def test_a_driver_has_a_generation_once_it_took_the_chain_over() -> None:
    metrics = Metrics("uc")
    assert _sample(metrics, "generation") is None, "0 would be a generation that fell"
    metrics.show_generation(3)
    assert _sample(metrics, "generation") == 3


def test_who_is_left_behind_is_counted_until_nobody_is() -> None:
    metrics = Metrics("uc")
    lags = Clock(shown={"events": {"0": 40, "1": 900}}, sources={"gate": 50, "near": 350}, forced_ms=300)
    for pinned, number in ((lags, 2), (Clock(), 0), (lags, 2), (None, 0)):
        record = record_of(declaration(4)).model_copy(update={"clock": pinned})
        metrics.count_epoch(record, MS, repeat=False)
        assert _sample(metrics, "left_behind") == number


def test_sources_that_are_not_waited_for_are_counted_until_they_are_back() -> None:
    metrics = Metrics("uc")
    for released, number in ((("gate",), 1), (("gate", "near"), 2), ((), 0), (("gate",), 1), (None, 0)):
        pinned = (
            None if released is None else Clock(sources=dict.fromkeys(("far", "gate", "near"), 50), released=released)
        )
        record = record_of(declaration(4)).model_copy(update={"clock": pinned})
        metrics.count_epoch(record, MS, repeat=False)
        assert _sample(metrics, "sources_released") == number


def test_they_are_served_where_the_environment_says() -> None:
    metrics = Metrics("uc")
    assert metrics.serve({}) is None
    port = metrics.serve({VARIABLE: "0"})
    metrics.show_input(0.5, None)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert 'effectively_once_input_retention_seconds{pipeline="uc"} -1.0' in answer.read().decode()


def test_a_port_that_is_none_or_taken_is_refused_by_name() -> None:
    with socket.socket() as one:
        one.bind(("0.0.0.0", 0))  # noqa: S104 - as the server binds it
        one.listen()
        for port in ("many", "-1", "70000", str(one.getsockname()[1])):
            with pytest.raises(SettingsError, match=VARIABLE):
                Metrics("uc").serve({VARIABLE: port})
