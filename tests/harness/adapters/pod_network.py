"""The network of pods and nodes of a kind cluster: packets dropped within the namespace of one, and nowhere else.

Every rule names the run in a comment. What is meant for a pod refuses the namespace of the node, and every script looks
again from within before it touches a rule: a number of a process may have been given out anew.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network
from pathlib import Path
from typing import Any

from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes

MARK = "effectively-once-cut"
MARKED = re.compile(rf"{MARK}-([a-z0-9-]+)-\d+ \*/")
INPUT, OUTPUT, FORWARD = "INPUT", "OUTPUT", "FORWARD"
SIDES = {INPUT: ("-s",), OUTPUT: ("-d",), FORWARD: ("-s", "-d")}
"""How rules of a chain match a peer. Within a node FORWARD has what its pods send and get."""
LEAST_PREFIX = 16
"""Of a range: the pods of a whole cluster of kind, of which a node has a part."""
OF_NODE = 0
OWN = "readlink /proc/self/ns/net"
# The processes of a node are searched for one in the namespace: the one that led there may have ended, and the rules
# stay as long as the pod does.
ENTER = """
own=$(readlink /proc/self/ns/net)
number=$1 inner=$2
shift 2
if [ "$number" = {node} ]; then exec sh -c "$inner" "$own" "$@"; fi
[ "net:[$number]" != "$own" ] || {{ echo own; exit 0; }}
path=$(find {proc}/[0-9]*/ns/net -maxdepth 0 -lname "net:?$number?" 2>/dev/null | head -n 1)
[ -n "$path" ] || {{ echo gone; exit 0; }}
nsenter --net="$path" sh -c "$inner" "net:[$number]" "$@"
"""
FIND = """
own=$(readlink /proc/self/ns/net)
net=$(readlink "{proc}/$1/ns/net") && grep -q "$2" "{proc}/$1/cgroup" || {{ echo gone; exit 0; }}
[ "$net" != "$own" ] || {{ echo own; exit 0; }}
echo "$net"
"""
# Rules of a run that was killed, of the node and in whatever pod of it.
SWEEP = """
own=$(readlink /proc/self/ns/net)
seen=" $own "
sh -c "$1" "$own" "$2" || true
for path in {proc}/[0-9]*/ns/net; do
  net=$(readlink "$path" 2>/dev/null) || continue
  case "$seen" in *" $net "*) continue ;; esac
  seen="$seen$net "
  nsenter --net="$path" sh -c "$1" "$net" "$2" || true
done
"""
WITHIN = '[ "$(readlink /proc/self/ns/net)" = "$0" ] || { echo gone; exit 0; }\n'
# A rule is words without blanks within.
DROP = WITHIN + 'for rule in "$@"; do iptables -w 5 $rule || exit 1; done\necho dropped\n'
_LINES = """
  all=$(iptables -w 5 -n -v -x -L "$chain" --line-numbers) || exit 1
  lines=$(printf '%s\\n' "$all" | grep -F -e "$1") || continue
  printf '%s\\n' "$lines" | sed "s/^/$chain /"
"""
COUNT = WITHIN + f"for chain in {INPUT} {OUTPUT} {FORWARD}; do\n{_LINES}done\necho counted\n"
# The last one first: a rule's number is its place.
REMOVE = (
    WITHIN
    + f"""for chain in {INPUT} {OUTPUT} {FORWARD}; do
{_LINES}
  for place in $(printf '%s\\n' "$lines" | cut -d ' ' -f 1 | sort -r -n); do
    iptables -w 5 -D "$chain" "$place" || exit 1
  done
done
echo removed
"""
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where packets come from or go to: an address or a range of them, or one port."""

    ip: str
    port: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address, and no range of a node's pods. Raises ValueError."""
        if IPv4Network(self.ip).prefixlen < LEAST_PREFIX:
            raise AddressValueError(f"{self.ip} is more than the pods of a node: no rule is made for it")

    def words(self, side: str) -> str:
        """As a rule matches packets from there (`-s`), or to there (`-d`)."""
        port = "--sport" if side == "-s" else "--dport"
        return f"{side} {self.ip}" + (f" -p tcp {port} {self.port}" if self.port is not None else "")


@dataclass(frozen=True, slots=True)
class Netns:
    """The network namespace of a pod: its node, and its number there; OF_NODE: that of the node itself."""

    node: str
    number: int


def mark_of(run: str, number: int) -> str:
    """Comment of the rules of a run's cut."""
    return f"{MARK}-{re.sub('[^a-z0-9-]', '-', run.lower())}-{number}"


def comment(mark: str) -> str:
    """As the list of rules shows a comment."""
    return f"/* {mark} */"


def rules(peer: Iterable[Address], chains: Iterable[str], mark: str) -> list[str]:
    """Rules that drop what comes from a peer (`INPUT`), goes to it (`OUTPUT`) or either for others (`FORWARD`); pure.

    They stand before any other rule.
    """
    return [
        f"-I {chain} {one.words(side)} -m comment --comment {mark} -j DROP"
        for chain in chains
        for one in peer
        for side in SIDES[chain]
    ]


def packets(listed: str) -> dict[str, int]:
    """Packets that rules dropped, by chain, from lines `chain place packets bytes ...`; pure."""
    found: Counter[str] = Counter()
    for line in listed.splitlines():
        words = line.split()
        if len(words) > 3 and words[0] in SIDES:
            found[words[0]] += int(words[2])
    return dict(found)


@dataclass(frozen=True)
class PodNetwork:
    """Drops packets in the namespaces of pods.

    Attributes:
        nodes: on which the pods are.
        proc: folder of a node's processes.
    """

    nodes: Nodes
    proc: str = "/proc"

    def of(self, node: str, container_id: str) -> Netns:
        """The namespace of a container's pod.

        Raises:
            NoProcessError: the container does not run, or its pod has no namespace of its own.
            EngineError: the node does not answer.
        """
        pid = self.nodes.process(node, container_id)
        told = self._run(node, FIND, str(pid), container_id)
        found = re.fullmatch(r"net:\[(\d+)\]", told)
        if found is None:
            why = "its pod has the network of the node" if told == "own" else f"process {pid} is gone"
            raise NoProcessError(f"container {container_id[:12]} on node {node}: {why}")
        return Netns(node, int(found[1]))

    def of_node(self, node: str) -> Netns:
        """The namespace of a node. What it forwards, as all that its pods send, only rules of FORWARD concern.

        Raises:
            NoProcessError: it has the network of this machine, which is not ours to touch.
            EngineError: the node does not answer.
        """
        if self._run(node, OWN) == str(Path("/proc/self/ns/net").readlink()):
            raise NoProcessError(f"node {node} has the network of this machine, in which nothing is cut")
        return Netns(node, OF_NODE)

    def drop(self, netns: Netns, wanted: Sequence[str], mark: str, at_most_s: float) -> None:
        """Set rules up, and have the node itself remove them after `at_most_s`, whatever becomes of this process.

        Raises:
            NoProcessError: nobody is in the namespace any more.
            EngineError: a rule was refused; some may be there.
        """
        self._later(netns, mark, at_most_s)
        told = self._within(netns, DROP, *wanted)
        if told != "dropped":
            raise NoProcessError(f"network {netns.number} on node {netns.node} cannot be cut: {told or 'no answer'}")

    def count(self, netns: Netns, mark: str) -> dict[str, int] | None:
        """Packets dropped so far, by chain; None once the pod is gone. Raises EngineError."""
        return self._parse(self._within(netns, COUNT, comment(mark)), "counted")

    def remove(self, netns: Netns, mark: str) -> dict[str, int] | None:
        """Remove the rules; what they had dropped, as `count`. Safe to repeat. Raises EngineError."""
        return self._parse(self._within(netns, REMOVE, comment(mark)), "removed")

    def sweep(self, node: str) -> dict[str, int]:
        """Remove the rules of every run from every pod of a node; how many there were, by run. Raises EngineError."""
        return dict(Counter(MARKED.findall(self._run(node, SWEEP, REMOVE, f"/* {MARK}-"))))

    def _parse(self, told: str, ends: str) -> dict[str, int] | None:
        # A line may be lost with the container, and then nothing is known.
        return packets(told) if told.endswith(ends) else None

    def _within(self, netns: Netns, inner: str, *words: str) -> str:
        return self._run(netns.node, ENTER, str(netns.number), inner, *words)

    def _run(self, node: str, script: str, *words: str) -> str:
        return self.nodes.execute(node, "sh", "-c", script.format(proc=self.proc, node=OF_NODE), "cut", *words).strip()

    def _later(self, netns: Netns, mark: str, seconds: float) -> None:
        # Its mark is that of no other cut: where the rules are gone by then, it finds nothing to do.
        script = f"sleep {math.ceil(seconds)}\n{ENTER.format(proc=self.proc, node=OF_NODE)}"
        words = ("sh", "-c", script, "cut", str(netns.number), REMOVE, comment(mark))
        self.nodes.kind.engine.run("exec", "--detach", netns.node, *words)


def service_addresses(pod: Mapping[str, Any], services: Iterable[Mapping[str, Any]]) -> list[Address]:
    """Addresses by which a pod is reached: its own, and those of every service that stands before it; pure."""
    labels = (pod["metadata"].get("labels") or {}).items()
    ips = [str((pod.get("status") or {}).get("podIP") or "")]
    for one in services:
        spec = one.get("spec") or {}
        selector = spec.get("selector") or {}
        if selector and selector.items() <= labels and spec.get("clusterIP") not in (None, "", "None"):
            ips.append(str(spec["clusterIP"]))
    return [Address(ip) for ip in dict.fromkeys(ips) if ip]


def endpoint_addresses(service: Mapping[str, Any], slices: Iterable[Mapping[str, Any]]) -> list[Address]:
    """Addresses, with their ports, of a service and of all that answers behind it; pure."""
    spec = service.get("spec") or {}
    found = [Address(str(spec["clusterIP"]), int(port["port"])) for port in spec.get("ports") or []]
    for one in slices:
        ips = [str(ip) for endpoint in one.get("endpoints") or [] for ip in endpoint.get("addresses") or []]
        found += [Address(ip, int(port["port"])) for ip in ips for port in one.get("ports") or []]
    return list(dict.fromkeys(found))
