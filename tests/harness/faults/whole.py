"""When a server of several copies is whole again: all of them serve, and none lacks what the others have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaException

from infra.cluster.api import ClusterError
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.pod_shell import ask_shell
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.platform_sorts import BROKER, OBJECT_STORE

WHOLE_S = 600.0
"""A drive of some hundred MB is healed within a minute; MinIO looks for one every ten seconds."""
# A drive is formatted before it is healed. MinIO's note of that stays, and ends with `Finished`: true once it is done
# (MessagePack, true is the byte 303 in octal; seen with RELEASE.2026-02-12 on a drive that was healed).
HEALED = """
note=/data/.minio.sys/buckets/.healing.bin
if [ ! -e /data/.minio.sys/format.json ]; then echo "not formatted"
elif [ -e "$note" ] && [ "$(tail -c 9 "$note" | od -An -c | tr -d ' \\n')" != Finished303 ]; then echo "healing"
else echo "whole"; fi
"""
WHOLE = "whole"


@dataclass(frozen=True)
class Whole:
    """Looks whether a server is whole.

    Attributes:
        server: its pods.
        behind: why its copies do not have the same contents; None: they have.
    """

    server: ServerPods
    behind: Callable[[], str | None] = field(default=lambda: None)

    def lacks(self) -> str | None:
        """Why it is not whole; None: it is. What cannot be asked is not whole."""
        try:
            if len(there := self.server.ready()) < self.server.count:
                return f"{len(there)} of {self.server.count} copies of the {self.server.what} are ready"
            return self.behind()
        except (ClusterError, OSError, KafkaException, NoProcessError) as error:
            return str(error)

    def wait(self, ended: threading.Event, longest_s: float = WHOLE_S) -> None:
        """Wait until it is whole; ends early when the run does. Raises ClusterTimeoutError."""
        self.server.cluster.wait_for(
            f"every copy of the {self.server.what} to be there and complete",
            lambda: ended.is_set() or self.lacks() is None,
            longest_s,
            self.lacks,
        )


def whole_servers(servers: Mapping[str, ServerPods], leaders: Leaders | None) -> dict[str, Whole]:
    """By role; `leaders` tells which copies of partitions are behind, None: there is one broker, or nobody asks."""
    behind: dict[str, Callable[[], str | None]] = {}
    if leaders is not None:
        behind[BROKER] = partial(_out_of_sync, leaders)
    if OBJECT_STORE in servers and servers[OBJECT_STORE].count > 1:
        behind[OBJECT_STORE] = partial(_unhealed, servers[OBJECT_STORE])
    return {role: Whole(one, behind[role]) if role in behind else Whole(one) for role, one in servers.items()}


def _out_of_sync(leaders: Leaders) -> str | None:
    behind = leaders.behind()
    return f"{len(behind)} partitions have a copy that is not in sync: {', '.join(behind[:3])}" if behind else None


def _unhealed(stores: ServerPods) -> str | None:
    for pod in stores.ready():
        if (says := ask_shell(stores.cluster, pod, HEALED)) != WHOLE:
            return f"the drive of {pod.name} is {says or 'silent'}"
    return None
