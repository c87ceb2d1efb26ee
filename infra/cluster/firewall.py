"""What an engine leaves in the machine's packet filter when it ends, taken away again.

Only rules and chains that were not there before the engine started and that are the engine's by their name.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

BRIDGE = "eonce0"
"""Name of our network's bridge: its rules can be told from others'."""
_OURS = ("DOCKER", BRIDGE)
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def snapshot() -> dict[str, str]:
    """The machine's rules and whether it forwards packets."""
    return {"rules": _save(), "forwarding": _FORWARDING.read_text().strip()}


def _save() -> str:
    path = shutil.which("iptables-save", path="/usr/sbin:/sbin:/usr/bin:/bin")
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout if path else ""


def undo(before: Mapping[str, str]) -> None:
    """Bring rules, chains, policies and forwarding back to what `snapshot` saw."""
    for words in removals(before["rules"], _save()):
        subprocess.run(["/usr/sbin/iptables", *words], capture_output=True, check=False)
    _FORWARDING.write_text(before["forwarding"])


def removals(before: str, after: str) -> Iterator[list[str]]:
    """Arguments of iptables that remove what the engine added; a pure function of two `iptables-save` texts."""
    old = _tables(before)
    for table, lines in _tables(after).items():
        added = [line for line in lines if line not in old.get(table, [])]
        ours = [line for line in added if any(name in line for name in _OURS)]
        for line in ours:
            if line.startswith("-A"):
                yield ["-t", table, "-D", *shlex.split(line)[1:]]
        chains = [line.split()[0][1:] for line in ours if line.startswith(":")]
        for flag in ("-F", "-X"):
            for chain in chains:
                yield ["-t", table, flag, chain]
        yield from _policies(table, old.get(table, []), lines)


def _policies(table: str, old: list[str], new: list[str]) -> Iterator[list[str]]:
    was = {words[0]: words[1] for line in old if (words := line.split())[0].startswith(":")}
    for line in new:
        words = line.split()
        if words[0].startswith(":") and words[1] != "-" and words[1] != was.get(words[0], "ACCEPT"):
            yield ["-t", table, "-P", words[0][1:], was.get(words[0], "ACCEPT")]


def _tables(text: str) -> dict[str, list[str]]:
    """Chains (`:NAME policy`) and rules (`-A ...`) by table; packet counters are left out."""
    tables: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith("*"):
            current = tables.setdefault(line[1:], [])
        elif line.startswith(":"):
            current.append(line.partition(" [")[0])
        elif line.startswith("-A"):
            current.append(line)
    return tables
