"""What an object store answers is taken for an object, or for its absence, only where it proves that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from effectively_once.errors import UnreachableError
from effectively_once.ledger.objects import Absent, Found, Get, create_once, run
from effectively_once.store import object_store, s3_client
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from tests.unit.library.http_store import NONE, Handler, serving

Answer = tuple[int, dict[str, str], bytes]
WHOLE: Answer = (200, {"ETag": '"1"', "Content-Length": "4"}, b"body")
Opened = Callable[..., S3ObjectStore]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Open a store that gives some answers, one after the other, and the last one from then on."""
    monkeypatch.setenv(s3_client.ACCESS_KEY, "a")
    monkeypatch.setenv(s3_client.SECRET_KEY, "b" * 8)
    left: list[Answer] = []

    class InTurn(Handler):
        def respond(self) -> None:
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with serving(InTurn) as endpoint:

        def store(*answers: Answer) -> S3ObjectStore:
            left[:] = answers
            return S3ObjectStore(BucketAddress(endpoint, "bucket"), patience_s=0.25)

        yield store


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, {"ETag": '"1"', "Content-Length": "5"}, b"body"), "IncompleteRead|4 of 5"),
        ((200, {"ETag": '"1"'}, b"body"), "no word of how many"),
        ((200, {"ETag": '"1"', "Transfer-Encoding": "chunked"}, b"4\r\nbody\r\n"), "."),
        ((200, {"Content-Length": "4"}, b"page"), "without an ETag"),
        ((404, {"Content-Length": "0"}, b""), "not in the words"),
        ((404, {"Content-Length": "9"}, b"not found"), "not in the words"),
    ],
)
@pytest.mark.thinned(3)
def test_an_answer_that_may_be_cut_or_anothers_is_none(opened: Opened, answer: Answer, says: str) -> None:
    with pytest.raises(UnreachableError, match=says):
        opened(answer).answer(Get("k"))


def test_what_proves_itself_is_taken(opened: Opened) -> None:
    assert opened(WHOLE).answer(Get("k")) == Found(b"body", "1")
    chunked = (200, {"ETag": '"1"', "Transfer-Encoding": "chunked"}, b"4\r\nbody\r\n0\r\n\r\n")
    assert opened(chunked).answer(Get("k")) == Found(b"body", "1")
    assert opened((404, {"Content-Length": str(len(NONE))}, NONE)).answer(Get("k")) == Absent()


def test_one_that_does_not_is_asked_again(opened: Opened) -> None:
    """A proxy whose store is away says 404; so a head that is there would be gone."""
    assert opened((404, {"Content-Length": "0"}, b""), WHOLE).answer(Get("k")) == Found(b"body", "1")


def test_a_client_that_does_not_count_bytes_is_counted_after() -> None:
    """As urllib3 was before its second version."""
    assert object_store.unproven(200, {"ETag": "1", "Content-Length": "5"}, b"body") == "4 of 5 bytes"


def test_a_put_that_is_never_taken_ends_as_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that answers reads and takes no writes: the protocol must not ask it for ever."""
    monkeypatch.setenv(s3_client.ACCESS_KEY, "a")
    monkeypatch.setenv(s3_client.SECRET_KEY, "b" * 8)
    puts: list[str] = []

    class NoRoom(Handler):
        def respond(self) -> None:
            if self.command == "PUT":
                puts.append(self.path)
                self.answer(507)
            else:
                self.answer(404, NONE)

    with (
        serving(NoRoom) as endpoint,
        pytest.raises(UnreachableError, match=r"no room left.*507.*Make room on its disk"),
    ):
        run(create_once("key", b"body"), S3ObjectStore(BucketAddress(endpoint, "bucket"), patience_s=0.7))
    assert 2 <= len(puts) <= 6
