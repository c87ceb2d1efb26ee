"""The broker's own tools, which do what the Python client cannot; they log in as this process does."""

from __future__ import annotations

import os
from pathlib import Path

from effectively_once.kafka_client import JAAS, Access
from infra.cluster.login import TOOLS


def command_of(java: Path, class_path: Path, tool: str, bootstrap: str) -> list[str]:
    """Return how a tool is called, up to its own words: a password is in the files that are named, and not here.

    Args:
        java: that it runs on.
        class_path: folder of the broker's jars.
        tool: name of its class.
        bootstrap: `host:port,...` of the brokers.

    """
    access = Access.of(os.environ)
    options, login = [], []
    if access.has_login and access.folder is not None:
        options = [f"-Djava.security.auth.login.config={access.folder / JAAS}"]
        login = ["--command-config", str(access.folder / TOOLS)]
    words = [str(java), "-XX:TieredStopAtLevel=1", *options, "-cp", f"{class_path}/*", tool]
    return [*words, "--bootstrap-server", bootstrap, *login]
