"""A shell script in a pod that answers with one line."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError

ANSWER_S = 15.0


class Enterable(Protocol):
    """What pods of the pipeline and of servers have in common."""

    @property
    def name(self) -> str:
        """Of the pod."""

    @property
    def container(self) -> str:
        """The one that is entered."""

    @property
    def who(self) -> str:
        """Identity in history."""


def ask_shell(cluster: Cluster, pod: Enterable, script: str) -> str:
    """Return the line that a script answers with in a pod's container; empty when none comes within ANSWER_S.

    Raises:
        NoProcessError: the pod cannot be entered, or the session breaks.
    """
    # The shell stays until the session is closed: one that ends takes its last line with it now and then.
    session = cluster.enter(pod.name, pod.container, f"{script}\nread -r _")
    try:
        return str(session.readline_stdout(timeout=ANSWER_S) or "").strip()
    except Exception as error:
        raise NoProcessError(f"{pod.who} does not answer: {error}") from error
    finally:
        with suppress(Exception):
            session.close()
