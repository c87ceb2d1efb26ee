"""The update of a stack that this program is run by, ended before its time."""

from __future__ import annotations

import signal

import psutil


def cancel() -> bool:
    """End it as Ctrl-C does, and return whether there is one: Pulumi stops to wait, and keeps what was made.

    A program that ends with an error would not do: Pulumi then waits all the same for what it has begun to make.
    """
    for process in psutil.Process().parents():
        try:
            if process.name() == "pulumi":
                process.send_signal(signal.SIGINT)
                return True
        except psutil.NoSuchProcess:
            continue
    return False
