"""Ways into the cluster that kubectl opens: the command lines, and holding them open."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console as Screen
from rich.markup import escape

from infra.cluster.api import ClusterError
from infra.embedded.ports import HOST, NoFreePortError, free_ports
from infra.embedded.process import Child, ServerError, wait_for
from infra.operate.probes import listens

OPEN_S = 20.0
WATCH_S = 1.0


@dataclass(frozen=True)
class Forward:
    """Port `local` of this machine leads to port `remote` of `target`, which is `pod/x` or `svc/x`."""

    namespace: str
    target: str
    remote: int
    local: int

    def command(self, kubectl: str) -> str:
        """The command line that opens it."""
        return f"{kubectl} -n {self.namespace} port-forward {self.target} {self.local}:{self.remote}"


def hold(forwards: Mapping[str, Forward], kubectl: str, environment: Mapping[str, str], screen: Screen) -> None:
    """Keep these open until Ctrl-C; a port that is taken here is replaced by a free one.

    Raises ClusterError when one cannot be opened, or is closed from the other side (a driver that ended).
    """
    children: list[Child] = []
    with tempfile.TemporaryDirectory(prefix="effectively-once-open-") as logs:
        try:
            for name, wanted in forwards.items():
                here = replace(wanted, local=free_ports(1)[0]) if listens(HOST, wanted.local) else wanted
                children.append(_open(name, here, kubectl, environment, Path(logs)))
                screen.print(escape(f"✓ {name}: http://{HOST}:{here.local}"))
            if children:
                screen.print("open until Ctrl-C")
            while children:
                for child in children:
                    if child.wait(WATCH_S):
                        raise ClusterError(f"a way in was closed: {child.post_mortem()}")
        except (ServerError, NoFreePortError) as error:
            raise ClusterError(str(error)) from error
        except KeyboardInterrupt:
            screen.print("closed")
        finally:
            for child in children:
                child.stop()


def _open(name: str, forward: Forward, kubectl: str, environment: Mapping[str, str], logs: Path) -> Child:
    """One kubectl that listens. Raises ServerError."""
    argv = shlex.split(forward.command(kubectl))
    child = Child(name, argv, logs / f"{forward.local}.log", cwd=logs, env=environment)
    try:
        wait_for(f"{name} on port {forward.local}", OPEN_S, lambda: listens(HOST, forward.local), child)
    except BaseException:
        child.stop()
        raise
    return child
