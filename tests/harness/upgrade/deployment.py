"""The deployed stack as a run changes it: settings, wheels and updates through the project's own commands.

This is what needs a cluster, and it decides nothing: what is set is of `changes`, what is seen of `look`.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from effectively_once.pipeline.job import job_of
from effectively_once.pipeline.settings import digest
from infra.cluster import engine as engines
from infra.cluster.lifecycle import Lifecycle
from infra.cluster.pulumi import Stack
from infra.cluster.state import PROJECT
from infra.console import Console
from infra.images import wheels
from infra.images.builder import Builder, write_references
from infra.images.wheels import keep
from infra.settings.images import JOB_IMAGE
from infra.settings.load import images_from, merge, plain, resolve_security
from infra.settings.profiles import DEFAULT, PROFILES
from infra.settings.security import Security
from infra.toolchain.prepare import Toolchain
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.events import Watch
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.run_directory import RunDirectory
from tests.harness.upgrade import marker
from tests.harness.upgrade.changes import NoChangeError
from tests.harness.upgrade.kept import Kept
from tests.harness.upgrade.look import Look, fingerprint, read_pods, read_servers

COPY = "upgrade-settings.yaml"
"""In the state directory."""
SECRET_FIELDS = (("credentialsSecret",), ("databaseSecret",), ("sparkSecret", "secret"), ("kafkaClient", "secret"))
"""Of the chart's values: Secrets that a driver reads."""


def read_config(text: str) -> dict[str, Any]:
    """Return what a stack's file sets, laid over its profile, by section.

    Raises:
        NoChangeError: pipelines are a list there, in which none can be named.
    """
    config = (yaml.safe_load(text) or {}).get("config") or {}
    own = {name.removeprefix(f"{PROJECT}:"): one for name, one in config.items() if name.startswith(f"{PROJECT}:")}
    given = {name: plain(name, one) if isinstance(one, str) else one for name, one in own.items()}
    if isinstance(given.get("pipelines"), list):
        raise NoChangeError(
            "pipelines is a list in the stack's settings, and a run adds one by its name: write them by name "
            "(pipelines: {user_counts: {...}}), then `make up`"
        )
    return merge(PROFILES.get(str(given.get("profile", DEFAULT)), {}), given)


def list_secrets(values: Mapping[str, Any]) -> list[str]:
    """Return the Secrets that a chart's values name for a driver."""
    found = []
    for path in SECRET_FIELDS:
        value: Any = values
        for name in path:
            value = (value or {}).get(name) if isinstance(value, Mapping) else None
        if value:
            found.append(str(value))
    return found


def without_wheel(references: Mapping[str, str]) -> dict[str, str]:
    """Return references of images without that of the run's wheel."""
    return {name: one for name, one in references.items() if name != f"{JOB_IMAGE}{marker.NAME}"}


@dataclass
class Deployment:
    """The stack of `make up`, until its settings are put back.

    Attributes:
        lifecycle: of the cluster.
        toolchain: builds wheels' images.
        stack: its settings, and updates.
        kept: the settings of before.
        name: of the run's pipeline.
        console: tells what is under way.
        ask: what Pulumi's `stack output --json` says of the run's pipeline.
        pipelines: namespace of drivers.
        servers: by role.
        chain: of the pipeline.
        directory: of the run.
        watch: what the pipeline announces; None before it is followed.
    """

    lifecycle: Lifecycle
    toolchain: Toolchain
    stack: Stack
    kept: Kept
    name: str
    console: Console
    ask: Callable[[], Mapping[str, Any]]
    pipelines: Cluster
    servers: Mapping[str, ServerPods]
    chain: ChainReader
    directory: RunDirectory
    watch: Watch | None = None
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), init=False, repr=False)
    _secrets: list[str] = field(default_factory=list, init=False)
    _files: dict[str, str] = field(default_factory=dict, init=False)

    def set(self, settings: Mapping[str, str]) -> None:
        """Set settings of the stack by their paths; nothing is updated. Raises PulumiError."""
        for path, value in settings.items():
            self.kept.begin()
            words = ("config", "set", "--stack", self.stack.name, "--path", f"{PROJECT}:{path}", value)
            self.stack.run(*words)
            self.kept.finish()

    def update(self) -> None:
        """Update the stack. Raises PulumiError."""
        self.stack.up(self.console)

    def change(self, sets: Mapping[str, str], bump: int | None) -> None:
        """See Deployed."""
        if bump is not None:
            self._bump(bump)
            sets = {f"pipelines.{self.name}.wheel": marker.NAME, **sets}
        self.set(sets)
        self.update()

    def make_room(self, others: Sequence[str]) -> None:
        """Suspend the deployed pipelines, as the stack's own settings: an update resumes what it does not know of."""
        self.kept.keep()
        self.set({f"pipelines.{one}.suspend": "true" for one in others})
        self.update()

    def put_back(self) -> None:
        """Have settings, images and stack as they were before the run. Safe to repeat.

        Raises:
            KeptError, PulumiError: as of the function of that name.
        """
        if not self.kept.is_there:
            return
        put_back(self.lifecycle, self.stack, self.kept, self.console)

    def look(self) -> Look:
        """See Deployed."""
        pods = self.pipelines.pods(f"sparkoperator.k8s.io/app-name={self.name.replace('_', '-')}")
        starts = self.watch.find_announced("driver", 0, state="started") if self.watch is not None else []
        started = starts[-1] if starts else {}
        head = self.chain.head()
        pinned = (head.pinned or {}) if head is not None else {}
        return Look(
            settings=str(started.get("settings", "")),
            started=str(started.get("pod_uid", "")),
            pinned=str(pinned.get("wheel_digest", "")),
            shards=int(pinned.get("shards", 0)),
            servers=self.look_at_servers(),
            secrets={name: self._fingerprint(name) for name in self._secrets},
            **read_pods(pods),
        )

    def look_at_servers(self) -> dict[str, tuple[Any, ...]]:
        """Return the pods of each server."""
        return {role: read_servers(one.cluster.pods(one.selector)) for role, one in self.servers.items()}

    def read_settings(self) -> dict[str, Any]:
        """Return what the driver reads, with what its job gives; from now on its Secrets are looked at."""
        self._secrets = list_secrets(self.ask())
        text = self.pipelines.config_map(f"{self.name.replace('_', '-')}-settings")["settings.json"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            return job_of(Path(file.name)).settings.model_dump(mode="json")

    def keep_settings(self, settings: Mapping[str, Any]) -> str:
        """See Deployed."""
        key = digest(settings)
        if key not in self._files:
            name = f"settings-change-{len(self._files) + 1}.json" if self._files else "settings.json"
            self.directory.write_json(self.directory.path / name, dict(settings))
            self._files[key] = name
        return self._files[key]

    def _fingerprint(self, name: str) -> str:
        path = f"/api/v1/namespaces/{self.pipelines.namespace}/secrets/{name}"
        return fingerprint(self.pipelines.reader.get(path), self._salt)

    def _bump(self, number: int) -> None:
        """Do what `make images WHEEL=` and `make up` do of it: an image with the wheel, on every node."""
        with tempfile.TemporaryDirectory() as folder:
            keep(self.lifecycle.cache, marker.make_wheel(Path(folder), number, self.directory.path.name))
        engine = engines.ensure(self.lifecycle.state, self.console)
        watched = self.stack.is_watched()
        builder = Builder(engine, self.lifecycle.cache, self.toolchain, self.console, monitoring=watched)
        references = self.lifecycle.images(builder)
        self.lifecycle.kind(engine).load([references[f"{JOB_IMAGE}{marker.NAME}"]], self.console)


def put_back(lifecycle: Lifecycle, stack: Stack, kept: Kept, console: Console) -> None:
    """Have settings, images and stack as they were before a run that ended, or broke off.

    Raises:
        KeptError: somebody else has changed the settings since.
        PulumiError: the update failed; the next run tries again.
    """
    console.say("… the stack's settings are put back")
    kept.put_back()
    shutil.rmtree(lifecycle.cache.root / wheels.FOLDER / marker.NAME, ignore_errors=True)
    references = images_from({"EFFECTIVELY_ONCE_IMAGES": str(lifecycle.state.images)})
    write_references(lifecycle.state.images, without_wheel(references))
    stack.up(console)
    kept.forget()
    console.say("✓ the stack is as it was before the run")


def read_security_of(given: Mapping[str, Any]) -> Security:
    """Return what a stack has encrypted and asks logins for, by its settings laid over its profile."""
    return Security.model_validate(resolve_security(given))
