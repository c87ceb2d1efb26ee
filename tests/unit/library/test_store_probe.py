"""A store that does not keep what the chain rests on is refused at the start, each lack by its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToFiles
from effectively_once.driver.preflight import Preflight
from effectively_once.errors import StoreError, UnreachableError
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import Job
from effectively_once.sources.kafka import KafkaSource
from effectively_once.store import object_store, s3_client
from effectively_once.store.probe import TRIES, StoreProbe
from tests.fake_s3 import FakeS3, Lack, fake_s3
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import Fate, MemoryStore

LAYOUT = Layout("clicks")
SAYS = {
    Lack.IF_NONE_MATCH: "ignores If-None-Match: it wrote over",
    Lack.IF_MATCH: "ignores If-Match: it wrote over an object whose ETag is another",
    Lack.IF_MATCH_ON_NOTHING: "ignores If-Match: it created",
    Lack.ETAG_OF_SIZE: "gives two contents one ETag",
    Lack.ETAG_OF_PUT: "reads another ETag than it gave",
    Lack.NEVER_TRUE: "refuses If-Match with the ETag that it gave",
    Lack.NEVER_NEW: "refuses If-None-Match where there is no object",
    Lack.WRITES_WHAT_IT_REFUSES: "refuses a put and writes it all the same",
    Lack.STALE_READS: "reads something else than what it acknowledged last",
    Lack.FORGETS: "says yes and forgets",
    Lack.FORGETS_SECONDS: "reads something else than what it acknowledged last",
    Lack.FORGETS_DELETES: "still reads an object that was deleted",
}


@contextmanager
def started(lack: Lack, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Preflight, FakeS3]]:
    """Begin a driver's start with such a store."""
    monkeypatch.setenv(s3_client.ACCESS_KEY, "a")
    monkeypatch.setenv(s3_client.SECRET_KEY, "b" * 8)
    pipeline = Pipeline(lambda frame: frame, pa.schema([("user", pa.string())]), rows=(ToFiles("raw"),))
    with fake_s3(lack) as (endpoint, fake):
        settings = pipeline_settings(s3_endpoint=endpoint).model_copy(update={"start_patience_s": 0.3})
        store = object_store.S3ObjectStore(settings.bucket)
        yield Preflight(Job(pipeline, settings), LAYOUT, store, cast(KafkaSource, None)), fake


@pytest.mark.parametrize("lack", SAYS)
@pytest.mark.thinned(3)
def test_a_store_that_lacks_something_is_refused_by_its_name(lack: Lack, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(lack, monkeypatch) as (preflight, fake):
        with pytest.raises(StoreError, match=f"the object store {SAYS[lack]}.*http://127.*/data/clicks/probe/") as why:
            preflight.probe_store()
        assert "docs/reference/stores.md" in str(why.value)
        assert not fake.objects or lack == Lack.FORGETS_DELETES


def test_a_store_that_keeps_all_is_asked_twelve_times_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with started(Lack.NOTHING, monkeypatch) as (preflight, fake):
        preflight.probe_store()
        assert "".join(verb[0] for verb, _ in fake.requests) == "PGPGPGPGPGDG"
        assert len({path for _, path in fake.requests}) == 1
        assert fake.objects == {}
        preflight.probe_store()
        assert len({path for _, path in fake.requests}) == 2, "two starts at once would hinder each other"


def test_a_lost_answer_proves_nothing_and_is_asked_for_again() -> None:
    for lost in range(5):
        for fate in (Fate.LOST_APPLIED, Fate.LOST_DROPPED):
            store = MemoryStore([*[Fate.ANSWERED] * lost, fate])
            StoreProbe(store, "store", LAYOUT).run()
            assert store.objects == {}


@pytest.mark.parametrize("lack", [Lack.CONFLICTS, Lack.FULL])
def test_a_store_that_never_says_whether_a_put_took_place_is_given_up(
    lack: Lack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(lack, monkeypatch) as (preflight, fake):
        with pytest.raises(UnreachableError):
            preflight.probe_store()
        assert len([verb for verb, _ in fake.requests if verb == "PUT"]) <= 5 * TRIES
        assert fake.objects == {}
