"""The servers for this package, and for every test a sink of its own on them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from effectively_once.sinks import database, kafka
from effectively_once.sinks.database import PASSWORD, USER, DatabaseAddress
from effectively_once.sinks.postgres import TableAddress
from effectively_once.sinks.tables import make
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from tests.stack.faulty_link import FaultyLink
from tests.stack.sinks.adapter import PATIENCE_S, Adapter, Place
from tests.stack.sinks.counts_table import COUNTS, as_owner
from tests.stack.sinks.kinds import KINDS
from tests.stack.sinks.servers import Servers


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Start them once."""
    with Servers(tmp_path_factory.mktemp("sinks")) as started:
        yield started


@pytest.fixture
def credentials(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put them where the library looks for them."""
    monkeypatch.setenv(ACCESS_KEY, servers.object_store.access_key)
    monkeypatch.setenv(SECRET_KEY, servers.object_store.secret_key)
    monkeypatch.setenv(USER, servers.postgres.user)
    monkeypatch.setenv(PASSWORD, servers.postgres.password)


@pytest.fixture
def place(servers: Servers) -> Place:
    """Name a pipeline that no other test uses."""
    links = {kind: link.address for kind, link in servers.links.items()}
    name = f"p{uuid.uuid4().hex[:12]}"
    return Place(
        "postgres",
        name,
        links["kafka"],
        f"http://{links['manifest']}",
        f"postgresql://{links['postgres']}/{servers.postgres.database}",
    )


@pytest.fixture
def address(servers: Servers, place: Place, credentials: None) -> Iterator[TableAddress]:
    """Make a table that is appended to; go to the server without the link."""
    url = f"postgresql://{servers.postgres.url.split('/', 2)[2]}"
    found = TableAddress(DatabaseAddress(url), place.pipeline, "counts", 1)
    make(found.database, found.pipeline, found.sink, COUNTS, 2)
    yield found
    with as_owner(servers) as owner:
        # A failed test must not hold locks that a later one waits for.
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
            [f"{place.pipeline}.%"],
        )


@pytest.fixture(params=sorted(KINDS))
def adapter(place: Place, credentials: None, request: pytest.FixtureRequest) -> Adapter:
    """Make one sink of each kind."""
    made = KINDS[request.param](Place(**{**vars(place), "kind": request.param}))
    made.make()
    return made


@pytest.fixture
def link(servers: Servers, adapter: Adapter) -> FaultyLink:
    """Return the link that the sink's requests go through."""
    return servers.links[adapter.through or adapter.place.kind]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every sink wait for its server for seconds only."""
    monkeypatch.setattr(kafka, "COMMIT_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setitem(kafka.CLIENT, "topic.metadata.propagation.max.ms", 500)
    monkeypatch.setattr(database, "CONNECT_S", 2)
