"""What a fault is called on a page: roles and kinds in words."""

from typing import Any

from tests.harness.report import typeset
from tests.harness.report.lenient import real, text, whole
from tests.harness.results import Effect

_DONE = {
    "sigkill": "SIGKILL",
    "sigstop": "SIGSTOP, later SIGCONT",
    "zombie": "made a zombie",
    "stall": "stalled",
    "task_kill": "killed by Spark",
    "stage_cancel": "cancelled in Spark",
    "sigstop_beyond_time_out": "SIGSTOP beyond the time-out of transactions",
    "second_driver": "a second one started",
    "restart": "SIGTERM, started again",
    "forgotten_markers": "SIGKILL in a commit, markers forgotten",
    "taken_id": "transactional id taken",
    "error_answers": "answers 5xx",
    "late_answers": "answers late",
    "lost_answers": "answers lost",
    "no_room": "writes refused, no room",
    "leader_move": "leadership moved to another one",
    "clock_step": "its clock stepped",
    "pod_delete_now": "pod deleted, no grace",
    "pod_delete_graceful": "pod deleted gracefully",
    "node_restart": "restarted",
    "out_of_memory": "out of memory",
    "cut": "packets dropped",
    "slow_disk": "disk slow",
    "away": "killed, and none started for a while",
    "held_back": "its records late",
    "leader_away": "stalled as the leader of a partition",
}
_ROLES = (
    "driver",
    "executor",
    "every executor",
    "executor JVM",
    "neighbours",
    "python worker",
    "task",
    "stage",
    "broker",
    "object store",
    "result store",
    "operator",
    "operator at submission",
    "operator, then driver",
    "driver, then operator",
    "API server",
    "DNS",
    "node",
    "kubelet",
    "partition",
)
_WAYS = {"both": "both ways", "in": "on the way to the first", "out": "on the way to the second"}
PIPELINE = _ROLES[:8]
"""Roles of the pipeline's own processes; every other is a server, or a part of the machine."""


def name_deed(kind: str, signal: str = "") -> str:
    """Say what was done, by the kind of a fault."""
    said = _DONE.get(kind.lower()) or typeset.words(kind) or typeset.NOT_KNOWN
    return said if not signal or signal.lower() in said.lower() or kind in _DONE else f"{said} ({signal})"


def describe_deed(fault: dict[str, Any]) -> str:
    """Say what was done in one fault, and for how long whoever stood still did."""
    kind, still = text(fault.get("kind")), real(fault.get("stopped_s"))
    said = name_deed(kind, text(fault.get("signal")))
    if (lasted := real(fault.get("cut_s"))) is not None:
        return f"{said} {_WAYS.get(text(fault.get('direction')), '')} for {typeset.seconds(lasted)}".replace("  ", " ")
    if (lasted := real(fault.get("slowed_s"))) is not None:
        return f"{said} for {typeset.seconds(lasted)}"
    if (lasted := real(fault.get("held_s"))) is not None:
        return f"{said} by {typeset.seconds(lasted)}, {typeset.count(whole(fault.get('kept')))} of them"
    if kind == "away" and (lasted := real(fault.get("planned_s"))) is not None:
        return f"killed, and none started for {typeset.seconds(lasted)}"
    if still is None:
        return said
    return f"{'SIGSTOP' if kind == 'sigstop' else said}, for {typeset.seconds(still)}"


def name_fault(fault: dict[str, Any]) -> str:
    """Say who was struck, and how."""
    return f"{role(text(fault.get('target')))}: {describe_deed(fault)}"


def miss(fault: dict[str, Any]) -> str:
    """Say why a fault is no hit."""
    return "no effect" if fault.get("effect") == Effect.NONE else "missed"


def role(target: str) -> str:
    """Name the one who was struck."""
    return typeset.words(target) or typeset.NOT_KNOWN


def place(target: str) -> tuple[int, str]:
    """Order roles: those of the pipeline first, then servers, then others by name."""
    known = typeset.words(target)
    return (_ROLES.index(known) if known in _ROLES else len(_ROLES), known)
