"""Which signal a kind of fault sends; kinds that are not here send none."""

from __future__ import annotations

from collections.abc import Mapping

SIGKILL, SIGSTOP, SIGTERM = "SIGKILL", "SIGSTOP", "SIGTERM"
SIGNALS: Mapping[str, str] = {
    **dict.fromkeys(("sigkill", "out_of_memory", "away", "forgotten_markers"), SIGKILL),
    **dict.fromkeys(("sigstop", "zombie", "sigstop_beyond_time_out", "stall", "leader_away"), SIGSTOP),
    "restart": SIGTERM,
}
