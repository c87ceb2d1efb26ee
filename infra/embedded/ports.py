"""Free ports on 127.0.0.1."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

from infra.errors import UserError

HOST = "127.0.0.1"
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 15000
"""Below it are the ports that the kind cluster publishes (`infra/cluster/kind.py`)."""


class NoFreePortError(UserError):
    """Not enough ports can be bound on 127.0.0.1."""


def below_ephemeral(text: str, lowest: int = LOWEST) -> range:
    """Return the ports under those the kernel gives to outgoing connections, or an empty range.

    A server that restarts on its port must find it free. In the kernel's own range any outgoing connection may hold
    it; worse, a client that keeps trying a dead port of that range sooner or later connects to itself and takes it.
    """
    first = int(text.split(maxsplit=1)[0])
    return range(lowest, first) if first - lowest >= 1000 else range(0)


def free_ports(count: int, tries: int = 200) -> list[int]:
    """`count` different ports that could be bound just now. Nobody else is kept from taking them: retry on failure.

    Raises NoFreePortError.
    """
    try:
        candidates = below_ephemeral(_RANGE.read_text())
    except (OSError, ValueError, IndexError):
        candidates = range(0)
    rng = random.SystemRandom()
    with ExitStack() as held:
        found: list[int] = []
        for _ in range(count * tries):
            if len(found) == count:
                break
            one = held.enter_context(socket.socket())
            try:
                # Port 0: the kernel chooses. All stay bound until the end, so none is handed out twice.
                one.bind((HOST, rng.choice(candidates) if candidates else 0))
            except OSError:
                continue
            found.append(one.getsockname()[1])
        if len(found) < count:
            raise NoFreePortError(f"only {len(found)} of {count} ports can be bound on {HOST}; see `make doctor`")
        return found
