"""The links that a plan with cuts puts between a pipeline and the servers of the embedded stack; none without cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.embedded.ports import HOST
from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.cut_sorts import CUT, TO_BROKER, TO_RESULTS, TO_STORE
from tests.harness.schedule import Strike


@dataclass(frozen=True)
class CutLinks:
    """Links by the target of the cut that needs them.

    Attributes:
        links: they listen; what stands behind them is said later.
    """

    links: dict[str, TcpLink]

    @property
    def broker_port(self) -> int | None:
        """The port that the broker has to advertise; None where nothing stands in front of it."""
        link = self.links.get(TO_BROKER.target)
        return None if link is None else link.port

    def between(self, broker: str, broker_link_port: int, store: str, database: str | None) -> tuple[str, str, str]:
        """Say what stands behind each link; the pipeline's addresses of broker, object store and result store.

        Args:
            broker: address of the broker's own listener.
            broker_link_port: of its listener that sends clients to the link; 0 where it has none.
            store: URL of the object store.
            database: of the result store; None where there is none.
        """
        if (link := self.links.get(TO_BROKER.target)) is not None:
            link.target, broker = (HOST, broker_link_port), f"{HOST}:{link.port}"
        return broker, self._behind(TO_STORE.target, store), self._behind(TO_RESULTS.target, database or "")

    def _behind(self, target: str, url: str) -> str:
        """Put the link of a target between the pipeline and a URL; the URL by which it is reached."""
        link = self.links.get(target)
        if link is None or not url:
            return url
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        link.target = (parts.hostname, parts.port)
        return parts._replace(netloc=f"{HOST}:{link.port}").geturl()


@contextmanager
def cut_links(strikes: Sequence[Strike]) -> Iterator[CutLinks]:
    """A link for every target of the plan's cuts, for as long as the block lasts. Raises OSError."""
    targets = sorted({one.target for one in strikes if one.kind == CUT})
    with ExitStack() as held:
        links = {}
        for target in targets:
            links[target] = TcpLink(target)
            links[target].start()
            held.callback(links[target].stop)
        yield CutLinks(links)
