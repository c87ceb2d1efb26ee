"""An OCI runtime for machines whose root lacks a capability: takes it out of what is asked for, then runs runc.

`docker run --privileged` asks for every capability the kernel knows; runc fails when the host has not got one of them.
Run as a program, with an isolated interpreter, so it imports the standard library only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

RUNC = "runc"
# Names by number, as linux/capability.h counts them.
NAMES = (  # noqa: SIM905 - in a list they are forty lines
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
).split()


def missing(status: str) -> set[str]:
    """Capabilities that the bounding set of /proc/self/status lacks."""
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    bounding = int(found[1], 16) if found else ~0
    return {f"CAP_{name}" for number, name in enumerate(NAMES) if not bounding >> number & 1}


def without(document: Any, lacking: set[str]) -> Any:
    """The same runtime configuration, asking for none of `lacking`."""
    process = document.get("process", document) if isinstance(document, dict) else {}
    sets = process.get("capabilities")
    if isinstance(sets, dict):
        process["capabilities"] = {
            kind: [name for name in names or [] if name not in lacking] for kind, names in sets.items()
        }
    return document


def documents(words: list[str]) -> list[Path]:
    """Files of a runc command line that ask for capabilities: a bundle's config.json, an exec's process file."""
    found = []
    for at, word in enumerate(words):
        name, _, value = word.partition("=")
        value = value or (words[at + 1] if at + 1 < len(words) else "")
        if name in ("--bundle", "-b"):
            found.append(Path(value) / "config.json")
        elif name in ("--process", "-p"):
            found.append(Path(value))
    return found


def main(words: list[str]) -> None:
    """Correct what is asked for and become runc."""
    lacking = missing(Path("/proc/self/status").read_text())
    for path in documents(words) if lacking else []:
        if path.is_file():
            path.write_text(json.dumps(without(json.loads(path.read_text()), lacking)))
    os.execvp(RUNC, [RUNC, *words])  # noqa: S606 - that is what a shim is for


if __name__ == "__main__":
    main(sys.argv[1:])
