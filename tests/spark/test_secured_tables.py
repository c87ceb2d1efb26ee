"""A pipeline whose database asks for TLS and a role: who is not believed ends by name, and every output is exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from infra.certificates import Certificate, make_authority
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.spark.orders import Orders, assert_exact
from tests.spark.records import mixture
from tests.stack.secured_postgres import SecuredPostgres, secured_postgres

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAME, STEP_S, ACCESS = "guarded", 120.0, 77
PIPELINES = {NAME: {"job": "own.orders", "result_store": True}}


class Guarded(Orders):
    """One that logs in as a role of its own; the test itself is the owner."""

    database: SecuredPostgres
    password = "the first"
    authority: Certificate | None = None

    @property
    def own_env(self) -> Mapping[str, str]:
        return {**super().own_env, **self.database.client(NAME, self.password, self.authority)}


@pytest.fixture
def orders(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Guarded]:
    with secured_postgres(tmp_path) as server:
        assert server.give({NAME: "the first"}, pipelines=PIPELINES) == 0
        settings = {"job": "tests.spark.orders_job", "database": server.url, "epoch_rows_max": 300}
        made = Guarded(toolchain, stack.endpoints, tmp_path, NAME, settings)
        made.database = server
        for name, value in server.client(NAME, "the first").items():
            monkeypatch.setenv(name, value)
        made.create_topics()
        yield made
        made.end()


def test_a_driver_that_is_refused_says_why_and_one_that_is_not_publishes_exactly(orders: Guarded) -> None:
    orders.send(mixture(5, 600))
    assert orders.database.give({NAME: "the second"}, pipelines=PIPELINES) == 0
    for password, authority, says in (
        ("the first", None, f'password authentication failed for user "{NAME}"'),
        ("the second", make_authority("another platform"), "no encrypted session with PostgreSQL"),
    ):
        orders.password, orders.authority = password, authority
        refused = orders.start()
        assert refused.wait(STEP_S)
        assert refused.status() == ACCESS, refused.post_mortem()
        assert says in refused.post_mortem()
    orders.authority = None
    last = orders.start()
    orders.wait_committed(last)
    assert_exact(orders, running=True)
    last.stop()
    logs = [path.read_text(errors="replace") for path in (orders.folder / "logs").rglob("*") if path.is_file()]
    assert [one for one in logs if "the second" in one] == []
