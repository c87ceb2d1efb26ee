"""A driver that waits: its session is up, it declares nothing, starts no query, and takes over when nobody is at work.

Two drivers are safe without it (R1): who takes over fences the other by head, as any driver that starts. What waits
here is patience alone. A query is not started before, as it would write Spark's checkpoint, which is the other's.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence

import structlog
from pyspark.sql import SparkSession

from effectively_once.driver import warmth
from effectively_once.driver.driver import Driver
from effectively_once.driver.lease_keeper import lease_store
from effectively_once.driver.lease_watch import LeaseWatch, Why
from effectively_once.epoch import rows
from effectively_once.errors import PipelineError, UnreachableError
from effectively_once.ledger import lease
from effectively_once.ledger.head import Head
from effectively_once.ledger.lease import Lease
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.progress import announce

STOP_S = 0.5
"""How long a signal to stop may wait."""

log = structlog.get_logger()


class _OtherOwnerError(Exception):
    """Head is not the driver's any more that showed no sign of life: another standby was quicker."""


class Standby:
    """One wait of one driver, whose `check` has passed.

    Args:
        driver: that is to take over.
        spark: its session.
        store: of lease and head.
        now_s: seconds from any beginning.
        sleep: waits so many seconds.

    """

    def __init__(
        self,
        driver: Driver,
        spark: SparkSession,
        store: ObjectStore | None = None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        settings = driver.settings
        self._driver, self._spark, self._sleep, self._now_s = driver, spark, sleep, now_s
        self._store = lease_store(settings) if store is None else store
        self._watch = LeaseWatch(driver.layout, self._store, settings.lease_s, now_s)
        self._note = Lease(owner=driver.chain.owner, generation=0, ttl_s=settings.lease_s)
        self._noted: str | None = None
        self._noted_s = -math.inf

    def wait(self, stop: Sequence[int]) -> bool:
        """Wait until this driver has taken over, or `stop` holds a signal; whether it has.

        Raises:
            PipelineError: any of the named refusals of a start.

        """
        # One that could not take over is no standby: it says so now, and not when it is needed.
        self._driver.rehearse()
        rows.check(self._driver.pipeline, self._spark)
        over = threading.Event()
        try:
            while not stop:
                why = self._watch.look()
                if why is not None and self._take_over(why):
                    return True
                if not self._note.renewal:
                    log.info("waiting as a standby", after=self._watch.owner)
                    announce("driver", state="standby", pid=os.getpid())
                    self._driver.metrics.show_standby()
                    warmth.start(self._spark, lambda: self._driver.plan_nothing(self._spark), over)
                self._say()
                self._pause(stop)
            return False
        finally:
            over.set()
            if self._note.renewal:
                self._write_note(released=True)

    def _take_over(self, why: Why) -> bool:
        """Take the chain over from the driver that was watched; False where it is another one's by now."""
        owner, driver = self._watch.owner, self._driver

        def expect(head: Head) -> None:
            if head.owner != owner:
                raise _OtherOwnerError

        try:
            # Topics and tables may have been made anew since the start.
            driver.check_again()
        except UnreachableError as error:
            # It may be away with the driver that died: a start from nothing would come no sooner.
            log.warning("nobody is at work, and this standby cannot take over yet", error=str(error))
            return False
        try:
            driver.take_over(expect)
        except _OtherOwnerError:
            self._watch.forget()
            return False
        driver.metrics.count_takeover(why)
        log.info("took over", why=why, after=owner, generation=driver.head.generation)
        return True

    def _say(self) -> None:
        """Say once in the lease's time that somebody waits."""
        now = self._now_s()
        if now - self._noted_s >= self._note.ttl_s:
            self._noted_s = now
            self._write_note(released=False)

    def _write_note(self, *, released: bool) -> None:
        self._note = self._note.renew(released=released)
        try:
            self._noted = run(lease.note(self._driver.layout, self._note, self._noted), self._store)
        except PipelineError as error:
            log.warning("that a standby waits cannot be said", error=str(error))

    def _pause(self, stop: Sequence[int]) -> None:
        until_s = self._now_s() + self._watch.every_s
        while not stop and (left_s := until_s - self._now_s()) > 0:
            self._sleep(min(left_s, STOP_S))
