"""What the pipeline did while somebody stood still: whether it went on as it was, or who of it was replaced."""

from __future__ import annotations

from collections.abc import Iterable

from tests.harness.adapters.drivers import Drivers
from tests.harness.faults.fault import SEPARATOR

SAME, REPLACED = "same", "replaced"


class Response:
    """Compares who works now with who worked when this was made.

    Args:
        drivers: and their executors.
    """

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers
        self._driver, self._executors = drivers.driver, set(drivers.executors())

    def fresh(self, executors: Iterable[str]) -> list[str]:
        """Those that were not there."""
        return [one for one in executors if one not in self._executors]

    def read(self, struck: str | None = None) -> str:
        """`same`, or `driver replaced`, `executor replaced + broker replaced`.

        Args:
            struck: the role of who stood still, where another one works in its place.
        """
        roles = [] if struck is None else [struck]
        if self._drivers.driver != self._driver:
            # Its executors ended with it.
            roles.append("driver")
        elif self._executors - set(self._drivers.executors()):
            roles.append("executor")
        return SEPARATOR.join(f"{role} {REPLACED}" for role in dict.fromkeys(roles)) or SAME
