"""A cluster in memory, and what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from infra.cluster.engine import Engine, EngineError
from infra.console import Console


@dataclass
class FakeKind:
    """Containers and what was done with them."""

    containers: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    fails: bool = False
    engine: Engine | None = None

    def nodes(self) -> dict[str, str]:
        return self.containers

    def create(self, image: str, nodes: int, _console: Console, *, published: bool) -> None:
        self.done.append(f"create {nodes} from {image}{', published' if published else ''}")
        self.containers = {f"node{number}": "running" for number in range(nodes)}
        if self.fails:
            raise EngineError("kubelet is not running")

    def load(self, tags: Iterable[str], _console: Console) -> None:
        self.done.append(f"load {' '.join(tags)}")

    def delete(self) -> bool:
        self.done.append("delete")
        self.containers = {}
        return True


def refusing(why: str) -> Callable[..., None]:
    """Return a function that fails so, whatever it is given."""

    def refuse(*_: object, **__: object) -> None:
        raise EngineError(why)

    return refuse
