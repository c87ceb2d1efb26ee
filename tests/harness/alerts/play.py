"""One fault after the other on the cluster of this machine: quiet, caused, fired, healed, resolved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from infra.console import Console
from infra.errors import UserError
from tests.harness.alerts.answers import Active, AnswerError
from tests.harness.alerts.faults import FAULTS, Fault
from tests.harness.alerts.judge import LOOK_S
from tests.harness.alerts.results import Played, Quiet, Raised
from tests.harness.alerts.rules import Alert
from tests.harness.alerts.scene import Scene

CALM_S, PATIENCE_S = 25 * 60.0, 180.0
"""Rules look back a quarter of an hour; an alert is waited for longer than it states, to tell how late it comes."""
TELL_S = 60.0
FRESH_S = 90.0


class NoFaultError(UserError):
    """There is no such fault; the message says which there are."""


def choose(names: str | None) -> tuple[Fault, ...]:
    """Return the faults of names with commas between, all for None. Raises NoFaultError."""
    known = {one.name: one for one in FAULTS}
    wanted = [*known] if names is None else [name.strip() for name in names.split(",")]
    if strange := [name for name in wanted if name not in known]:
        raise NoFaultError(f"there is no fault {', '.join(strange)}; there are: {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def list_firing(active: Iterable[Active], pipelines: Iterable[str], applications: Iterable[str]) -> list[Active]:
    """Return the alerts that fire, but for those of pipelines that are not here any more: they end by themselves."""
    ours, named = {*pipelines}, {*applications}
    return [
        one
        for one in active
        if one.fires
        and one.labels.get("pipeline", next(iter(ours), None)) in ours
        and one.labels.get("application", next(iter(named), None)) in named
    ]


@dataclass
class Play:
    """Plays faults.

    Attributes:
        scene: what is struck.
        alerts: by name.
        console: tells what is under way.
        now_s: seconds from any beginning.
        sleep: waits so many seconds.
    """

    scene: Scene
    alerts: Mapping[str, Alert]
    console: Console
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _told_s: float = field(default=0.0, init=False)

    def firing(self) -> list[Active]:
        """The alerts that fire now, of what is deployed. Raises AnswerError."""
        return list_firing(self.scene.watcher.active(), [self.scene.pipeline], [self.scene.application])

    def settle(self, within_s: float = CALM_S) -> None:
        """Wait until nothing fires, and the pipeline publishes. Raises ClusterTimeoutError."""
        scene = self.scene

        def calm() -> bool:
            firing = self.firing()
            published = scene.value("published_timestamp_seconds") or 0
            waits = not scene.settings.standby or scene.value("standby") == 1
            down = [one for one in scene.watcher.targets() if not one.up]
            told = [one.says for one in firing] + [f"{one.job} {one.address} is down: {one.error}" for one in down]
            self._tell(f"waiting for calm: {'; '.join(told) or 'records that are published, a standby that waits'}")
            return not firing and not down and waits and time.time() - published < FRESH_S

        scene.wait_for("calm (no alert, every target up, records published)", calm, within_s)

    def watch_quiet(self, seconds: float) -> Quiet:
        """Do nothing for a time, and note which alerts fire."""
        seen: dict[str, None] = {}
        until_s = self.now_s() + seconds
        with self.console.step(f"quiet for {seconds / 60:.0f} minutes", seconds):
            while self.now_s() < until_s:
                seen |= dict.fromkeys(one.says for one in self._look())
                self.sleep(min(LOOK_S, max(0.0, until_s - self.now_s())))
        return Quiet(seconds=seconds, alerts=tuple(seen))

    def play(self, fault: Fault) -> Played:
        """Play one fault; whatever becomes of it, it is healed."""
        told = {"fault": fault.name, "says": fault.says, "since": fault.since, "may": tuple(sorted(fault.may))}
        raised = {name: self._due(name) for name in fault.raises}
        others: dict[str, dict[str, str]] = {}
        lacks = fault.needs(self.scene) or ""
        if not lacks:
            with self.console.step(f"{fault.name}: {fault.says}"):
                lacks = self._strike(fault, raised, others)
        self.console.say(f"  {'✗ ' + lacks if lacks else '✓ ' + fault.name}")
        return Played.model_validate({**told, "raised": tuple(raised.values()), "others": others, "lacks": lacks})

    def _strike(self, fault: Fault, raised: dict[str, Raised], others: dict[str, dict[str, str]]) -> str:
        """Cause, wait, heal, wait; what kept it from its end, empty: nothing."""
        lacks = ""
        try:
            self.settle()
            fault.cause(self.scene)
            self.console.say(f"  caused ({fault.since}); stated: {self._stated(fault)}")
            self._await(fault, raised, others)
        except Exception as error:
            # Whatever it is, it is healed, and the next fault is played.
            lacks = f"{type(error).__name__}: {error}"
        finally:
            try:
                self.scene.heal()
            except UserError as error:
                lacks = "; ".join(filter(None, (lacks, f"not healed: {error}")))
        if not lacks:
            self.console.say("  healed")
            self._await_end(fault, raised)
        return lacks

    def _await(self, fault: Fault, raised: dict[str, Raised], others: dict[str, dict[str, str]]) -> None:
        begin_s = self.now_s()
        longest_s = max(self.alerts[name].fires_within_s for name in raised) + PATIENCE_S
        while (after_s := self.now_s() - begin_s) <= longest_s:
            firing = self._look()
            after_s = self.now_s() - begin_s
            for one in firing:
                if one.name not in raised:
                    others.setdefault(one.name, dict(one.labels))
                elif raised[one.name].fired_s is None:
                    raised[one.name] = raised[one.name].model_copy(
                        update={"fired_s": round(after_s, 1), "labels": dict(one.labels)}
                    )
                    self.console.say(f"  {one.says} fires after {after_s:.0f} s")
            if all(one.fired_s is not None for one in raised.values()):
                break
            waits = [name for name, one in raised.items() if one.fired_s is None]
            self._tell(f"  {after_s:.0f} s: waiting for {', '.join(waits)}")
            fault.keep(self.scene)
            self.sleep(LOOK_S)
        self._ask_alertmanager(raised)

    def _ask_alertmanager(self, raised: dict[str, Raised]) -> None:
        """See that what fired got there. It is sent with the evaluation that makes it fire."""
        for _ in range(6):
            received = self.scene.watcher.received()
            for name, one in raised.items():
                raised[name] = one.model_copy(update={"received": received.get(name, one.received)})
            if all(one.received or one.fired_s is None for one in raised.values()):
                return
            self.sleep(LOOK_S)

    def _await_end(self, fault: Fault, raised: dict[str, Raised]) -> None:
        begin_s = self.now_s()
        while (after_s := self.now_s() - begin_s) <= fault.resolves_s:
            try:
                fires = {one.name for one in self.scene.watcher.active() if one.fires}
            except AnswerError:
                fires = {*raised}
            after_s = self.now_s() - begin_s
            for name, one in raised.items():
                if one.fired_s is not None and one.resolved_s is None and name not in fires:
                    raised[name] = one.model_copy(update={"resolved_s": round(after_s, 1)})
                    self.console.say(f"  {name} is resolved after {after_s:.0f} s")
            waits = [name for name, one in raised.items() if one.fired_s is not None and one.resolved_s is None]
            if not waits:
                return
            self._tell(f"  {after_s:.0f} s: waiting for the end of {', '.join(waits)}")
            self.sleep(LOOK_S)

    def _look(self) -> list[Active]:
        try:
            return self.firing()
        except AnswerError as error:
            # It may be busy for a moment; that an alert is not seen shows in the times.
            self._tell(f"  {error}")
            return []

    def _due(self, name: str) -> Raised:
        alert = self.alerts[name]
        due = alert.expect(self.scene.pipeline, self.scene.application)
        return Raised(alert=name, stated_s=alert.fires_within_s, due=due)

    def _stated(self, fault: Fault) -> str:
        return ", ".join(f"{name} within {self.alerts[name].fires_within_s:.0f} s" for name in fault.raises)

    def _tell(self, text: str) -> None:
        """Say it, at most once a minute."""
        if self.now_s() - self._told_s >= TELL_S or not self._told_s:
            self._told_s = self.now_s()
            self.console.say(f"  … {text.strip()}")
