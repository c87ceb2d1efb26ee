"""The store that the chain rests on: its conditional puts, its refusals by name, and its answers when it is killed."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from effectively_once.errors import AccessError, PipelineError, SettingsError, UnreachableError
from effectively_once.ledger.objects import Absent, Found, Get, Lost, ObjectStore, Put, Refused, Written
from effectively_once.store.object_store import BucketAddress, S3ObjectStore, shared_store
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.embedded.ports import free_ports
from infra.embedded.stack import EmbeddedStack
from tests.unit.ledger.store_contract import CONTRACT

pytestmark = pytest.mark.stack

WRITERS, ROUNDS = 32, 20


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
def test_the_real_store_keeps_the_contract(clause: Callable[[ObjectStore, str], None], store: S3ObjectStore) -> None:
    clause(store, "some/name with spaces, é and ?=&")


def test_names_are_listed_in_order_below_a_prefix(store: S3ObjectStore) -> None:
    for name in ("a/2", "a/1", "a/sub/3", "b/4"):
        store.answer(Put(name, b"", None))
    assert list(store.names("a/")) == ["a/1", "a/2", "a/sub/3"]
    assert list(store.names("c/")) == []


def test_of_32_writers_that_create_one_name_exactly_one_wins(store: S3ObjectStore) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            together = threading.Barrier(WRITERS)

            def create(
                writer: int, key: str = f"round/{number}", together: threading.Barrier = together
            ) -> Written | Refused | Lost:
                together.wait(30)
                answer = store.answer(Put(key, str(writer).encode(), None))
                assert isinstance(answer, Written | Refused | Lost)
                return answer

            answers = list(pool.map(create, range(WRITERS)))
            winners = [writer for writer, answer in enumerate(answers) if isinstance(answer, Written)]
            # A store may answer 409 to a put beside another: it is then Lost, and must not have taken place.
            assert len(winners) == 1, f"round {number}: {winners}"
            found = store.answer(Get(f"round/{number}"))
            assert isinstance(found, Found)
            assert found.body == str(winners[0]).encode()


@dataclass
class Register:
    """Threads append tokens to one object by conditional puts, and say which appends they know to have taken place."""

    store: S3ObjectStore
    appended: list[str] = field(default_factory=list)
    lost: int = 0
    refused: int = 0
    progress: threading.Event = field(default_factory=threading.Event)

    def append(self, token: str) -> None:
        """Append once; an answer that got lost is settled by looking for the token."""
        while True:
            found = self.store.answer(Get("register"))
            assert isinstance(found, Found)
            tokens = json.loads(found.body)
            if token in tokens:
                break
            answer = self.store.answer(Put("register", json.dumps([*tokens, token]).encode(), found.etag))
            self.lost += isinstance(answer, Lost)
            self.refused += isinstance(answer, Refused)
            if isinstance(answer, Written):
                break
        self.appended.append(token)
        if len(self.appended) >= 10:
            self.progress.set()

    def _append_all(self, tokens: list[str]) -> None:
        for token in tokens:
            self.append(token)

    def run(self, threads: int, each: int) -> list[str]:
        """Let all threads append their tokens; return the register's content."""
        with ThreadPoolExecutor(threads) as pool:
            jobs = [pool.submit(self._append_all, [f"{thread}-{n}" for n in range(each)]) for thread in range(threads)]
            for job in jobs:
                job.result()
        found = self.store.answer(Get("register"))
        assert isinstance(found, Found)
        content: list[str] = json.loads(found.body)
        return content


def _linear(content: list[str], threads: int, each: int) -> None:
    """Nothing acknowledged was overwritten, nothing took place twice, and every thread's appends are in its order."""
    assert Counter(content) == Counter(f"{thread}-{n}" for thread in range(threads) for n in range(each))
    for thread in range(threads):
        mine = [token for token in content if token.startswith(f"{thread}-")]
        assert mine == [f"{thread}-{n}" for n in range(each)]


def test_a_chain_of_conditional_puts_is_linear_under_8_threads(store: S3ObjectStore) -> None:
    store.answer(Put("register", b"[]", None))
    register = Register(store)
    _linear(register.run(8, 8), 8, 8)
    assert register.refused > 0  # else the threads never met


def test_a_chain_of_conditional_puts_stays_linear_while_the_store_is_killed(
    stack: EmbeddedStack, store: S3ObjectStore
) -> None:
    store.answer(Put("register", b"[]", None))
    register = Register(store)

    def kill() -> None:
        assert register.progress.wait(30)
        stack.object_store.kill()
        stack.object_store.restart()

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        content = register.run(4, 25)
        killed.result()
    _linear(content, 4, 25)


def test_a_store_that_is_away_for_a_while_delays_reads_and_loses_answers_of_puts(
    stack: EmbeddedStack, store: S3ObjectStore
) -> None:
    store.answer(Put("kept", b"body", None))
    stack.object_store.kill()
    try:
        assert store.answer(Put("other", b"body", None)) == Lost()
        with ThreadPoolExecutor(2) as pool:
            reading = pool.submit(store.answer, Get("kept"))
            listing = pool.submit(lambda: list(store.names("")))
            stack.object_store.restart()
            found = reading.result(30)
            assert listing.result(30) == ["kept"]
    finally:
        if not stack.object_store.running():
            stack.object_store.restart()
    assert isinstance(found, Found)
    assert found.body == b"body"  # acknowledged before the kill, there after it
    assert store.answer(Get("other")) == Absent()


def _names_nothing_secret(refused: PipelineError, secret: str) -> None:
    assert "\n" not in str(refused)
    assert secret not in str(refused)


def test_a_wrong_secret_is_refused_by_name(bucket: BucketAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_KEY, "wrong-secret")
    store = S3ObjectStore(bucket)
    for ask in (
        lambda: store.check("name"),
        lambda: store.answer(Get("name")),
        lambda: store.answer(Put("name", b"", None)),
        lambda: list(store.names("")),
    ):
        with pytest.raises(AccessError, match=f"refuses the credentials.*Correct {ACCESS_KEY} and") as refused:
            ask()
        _names_nothing_secret(refused.value, "wrong-secret")


def test_an_unknown_access_key_is_refused_by_name(bucket: BucketAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ACCESS_KEY, "nobody")
    with pytest.raises(AccessError, match="refuses the credentials"):
        S3ObjectStore(bucket).check("some/head.json")


@pytest.mark.parametrize("variable", [ACCESS_KEY, SECRET_KEY])
def test_credentials_that_are_not_set_are_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ACCESS_KEY, "some")
    monkeypatch.setenv(SECRET_KEY, "thing")
    monkeypatch.delenv(variable)
    with pytest.raises(SettingsError, match=f"credentials .* are missing .environment variable {variable}"):
        S3ObjectStore(BucketAddress("http://127.0.0.1:1", "any"))


def test_a_missing_bucket_is_named_and_is_no_missing_object(stack: EmbeddedStack, bucket: BucketAddress) -> None:
    name = f"none-{uuid.uuid4().hex}"
    store = S3ObjectStore(BucketAddress(bucket.endpoint, name))
    for ask in (
        lambda: store.check("name"),
        lambda: store.answer(Get("name")),
        lambda: store.answer(Put("name", b"", None)),
        lambda: store.answer(Put("name", b"", "0" * 32)),
        lambda: list(store.names("")),
    ):
        with pytest.raises(AccessError, match=f"the bucket does not exist .*{name}.*Create it"):
            ask()


def test_a_bucket_that_is_there_passes_the_check(store: S3ObjectStore) -> None:
    store.check("some/head.json")


def test_a_store_that_does_not_answer_is_given_up_after_the_patience_asked_for(
    stack: EmbeddedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    store = S3ObjectStore(BucketAddress(endpoint, "any"), patience_s=0.5)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=f"does not answer: .*{endpoint}.*nothing was lost") as refused:
        store.check("some/head.json")
    assert 0.3 < time.monotonic() - began < 10
    assert "\n" not in str(refused.value)
    assert store.answer(Put("name", b"", None)) == Lost()
    with pytest.raises(UnreachableError):
        list(store.names(""))


def test_one_store_is_kept_for_an_address(bucket: BucketAddress, stack: EmbeddedStack) -> None:
    assert shared_store(bucket) is shared_store(BucketAddress(bucket.endpoint, bucket.bucket))
    assert shared_store(bucket) is not shared_store(BucketAddress(bucket.endpoint, stack.endpoints.s3_bucket))
