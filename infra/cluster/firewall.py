"""What an engine leaves in the machine's packet filter when it ends, taken away again.

Only rules and chains that were not there before the engine started, that are the engine's by their name, and that an
engine added which this project started on this boot of the machine and ended itself. Every other snapshot is thrown
away: it describes a machine that is no more, and what differs from it may be anybody's.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

BRIDGE = "eonce0"
"""Name of our network's bridge: its rules can be told from others'."""
_CHAINS = "DOCKER"
_OF_THE_USER = "DOCKER-USER"
"""Docker makes this chain for rules of the user; of its own it puts only a return into it."""
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Snapshot:
    """The packet filter before an engine of ours started.

    Attributes:
        boot: of the machine; rules do not outlive it.
        rules: as `iptables-save` prints them.
        forwarding: whether the machine forwarded packets, 0 or 1.
        engine: its process id and when it began; a number alone is given to another process one day.
        ended: we end the engine, or have done so: what it added is to be removed.
    """

    boot: str
    rules: str
    forwarding: str
    engine: tuple[int, int] | None = None
    ended: bool = False

    @staticmethod
    def take() -> Snapshot:
        """The machine as it is now."""
        return Snapshot(_boot(), _save(), _FORWARDING.read_text().strip())

    @staticmethod
    def read(path: Path) -> Snapshot | None:
        """What is kept, None when nothing readable is; one of a former version names no boot, and is none."""
        try:
            kept = Snapshot(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return replace(kept, engine=(kept.engine[0], kept.engine[1])) if kept.engine else kept

    def write(self, path: Path) -> None:
        """Keep it."""
        path.write_text(json.dumps(asdict(self), indent=1))


def identity(pid: int) -> tuple[int, int] | None:
    """Process id and when it began, in the kernel's ticks, which no clock that is set moves; None without a process."""
    try:
        return pid, int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return None


def mark_ended(path: Path, engine: tuple[int, int] | None) -> None:
    """Say, before this living engine is ended, that what it added is to be removed. A second call goes on from here."""
    kept = Snapshot.read(path)
    if kept and engine and kept.engine == engine:
        replace(kept, ended=True).write(path)


def settle(path: Path) -> bool:
    """Undo what an engine that we ended added since the snapshot, and throw that away; whether there was one."""
    kept = Snapshot.read(path)
    if kept and kept.ended and kept.boot == _boot():
        undo(kept, shared=_another_engine())
    had = path.exists()
    path.unlink(missing_ok=True)
    return had


def undo(before: Snapshot, *, shared: bool) -> None:
    """Bring rules, chains, policy and forwarding back to `before`; with another engine, only our bridge's rules go."""
    for words in removals(before.rules, _save(), shared=shared):
        subprocess.run(["/usr/sbin/iptables", *words], capture_output=True, check=False)
    if not shared and _FORWARDING.read_text().strip() != before.forwarding:
        _FORWARDING.write_text(before.forwarding)


def removals(before: str, after: str, *, shared: bool = False) -> Iterator[list[str]]:
    """Arguments of iptables that remove what the engine added; a pure function of two `iptables-save` texts.

    `shared`: another engine runs, which uses chains of the same names, the same policy and forwarding.
    """
    old = _tables(before)
    for table, lines in _tables(after).items():
        added = [line for line in lines if line not in old.get(table, [])]
        rules = [shlex.split(line)[1:] for line in added if line.startswith("-A")]
        if shared:
            yield from (["-t", table, "-D", *rule] for rule in rules if BRIDGE in rule)
            continue
        used = any(rule[0] == _OF_THE_USER and rule[1:] != ["-j", "RETURN"] for rule in rules)
        kept = (_OF_THE_USER,) if used else ()
        for rule in rules:
            if _ours(rule) and not {*kept} & {rule[0], rule[-1]}:
                yield ["-t", table, "-D", *rule]
        names = [line.split()[0][1:] for line in added if line.startswith(":")]
        chains = [name for name in names if name.startswith(_CHAINS) and name not in kept]
        for flag in ("-F", "-X"):
            for chain in chains:
                yield ["-t", table, flag, chain]
        if table == "filter":
            yield from _policy(old.get(table, []), lines)


def _ours(rule: list[str]) -> bool:
    target = rule[rule.index("-j") + 1] if "-j" in rule[:-1] else ""
    return BRIDGE in rule or rule[0].startswith(_CHAINS) or target.startswith(_CHAINS)


def _policy(old: list[str], new: list[str]) -> Iterator[list[str]]:
    """The one policy that an engine changes: it has nothing forwarded but by rules. Any other is of the user."""
    if ":FORWARD DROP" in new and ":FORWARD DROP" not in old:
        yield ["-t", "filter", "-P", "FORWARD", "ACCEPT"]


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


def _save() -> str:
    path = shutil.which("iptables-save", path="/usr/sbin:/sbin:/usr/bin:/bin")
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout if path else ""


def _boot() -> str:
    return _BOOT.read_text().strip()


def _another_engine() -> bool:
    """Whether a Docker of somebody else runs; ours has been ended."""
    return any(process.info["name"] == "dockerd" for process in psutil.process_iter(["name"]))
