"""`make up` and `make down`: from nothing to a deployed platform, and back to nothing.

Each step looks first whether its work is done, so that a second call changes nothing and one that was interrupted
goes on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from infra.cluster import engine as engines
from infra.cluster import needs, network
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import NAME, Kind
from infra.cluster.kubectl import Kubectl
from infra.cluster.lifecycle import node_image
from infra.cluster.lock import exclusive
from infra.cluster.pulumi import Stack
from infra.cluster.record import Record, decide
from infra.cluster.state import StateDirectory, link_programs, state_directory, write_launcher
from infra.console import Console
from infra.images.builder import Builder, write_references
from infra.images.catalogue import MONITORING
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.crds import resource_definitions
from infra.toolchain.go_tools import machine_arch
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.toolchain.programs import DEPLOYING, EVERY, find_programs

NODES = {"laptop": 1, "ci": 1, "chaos": 2, "brokers": 1, "ha": 3}
BROKERS = {"brokers": 3, "ha": 3}
"""Of profiles that have more than one."""


def require_cluster(profile: str) -> None:
    """Refuse a profile that has no cluster on this machine, before anything is looked for. Raises EngineError."""
    if profile not in NODES:
        raise EngineError(f"profile {profile!r} has no cluster of its own; those that have: {', '.join(NODES)}")


@dataclass
class Lifecycle:
    """The cluster of this machine, its engine and its stack."""

    console: Console
    state: StateDirectory
    cache: Cache

    @classmethod
    def here(cls, console: Console) -> Lifecycle:
        """With the usual places."""
        return cls(console, state_directory(), Cache(cache_root()))

    def up(self, toolchain: Toolchain, profile: str, *, monitoring: bool = False) -> None:
        """Everything, from the tools to the deployed pipeline; Prometheus and Alertmanager where they are asked for.

        Raises EngineError, ToolchainError, StateError or PulumiError for the first thing that fails, BusyError when
        another command is at work here.
        """
        require_cluster(profile)
        with exclusive(self.state, "make up"):
            self._up(toolchain, profile, monitoring)

    def _up(self, toolchain: Toolchain, profile: str, monitoring: bool) -> None:
        self.tools()
        engine = engines.ensure(self.state, self.console)
        needs.require_room(engine, self.state)
        needs.ensure_openssl(self.console)
        stack = self.stack()
        # The references are written anew, and the image is needed as long as the stack's settings ask for it.
        watched = monitoring or stack.is_watched()
        builder = Builder(engine, self.cache, toolchain, self.console, monitoring=watched)
        references = self.images(builder)
        kind = self.kind(engine)
        self._cluster(kind, builder, NODES[profile], BROKERS.get(profile, 1))
        kind.load(references.values(), self.console)
        stack.select(profile, monitoring=monitoring)
        stack.up(self.console)

    def tools(self, needed: Collection[str] = EVERY) -> None:
        """Find or build programs and definitions, and put them where `make env` points; others than `needed` stay."""
        self.state.make()
        self.state.ensure_passphrase()
        programs = dict(find_programs(self.cache, self.console, self.state.foreign_path(), needed))
        if not Path(programs["pulumi"]).with_name("pulumi-language-python").exists():
            programs["pulumi-language-python"] = write_launcher(
                self.state, "pulumi-language-python", "infra.language_host", CHECKOUT
            )
        link_programs(self.state, programs, EVERY.difference(needed))
        link = self.state.resource_definitions
        definitions = resource_definitions(self.cache)
        if not (link.is_symlink() and link.readlink() == definitions):
            link.unlink(missing_ok=True)
            link.symlink_to(definitions)

    def images(self, builder: Builder, *, push: bool = False) -> dict[str, str]:
        """Build what is missing, push it if asked to, and write the references for a Pulumi program.

        Those of pushed images end with the digest that the registry has them by.
        """
        references = builder.build_all()
        if push:
            pinned = builder.push(references.values())
            references = {name: pinned[tag] for name, tag in references.items()}
        path = self.state.pushed_images if push else self.state.images
        write_references(path, references)
        return references

    def show_images(self, toolchain: Toolchain, push: str, arch: str, *, monitoring: bool = False) -> None:
        """Build the images, with that of what watches if asked to, and print their sizes. Raises BusyError as `up`.

        With a prefix to `push` they are pushed.
        """
        with exclusive(self.state, "make images"):
            self._show_images(toolchain, push, arch, monitoring)

    def _show_images(self, toolchain: Toolchain, push: str, arch: str, monitoring: bool) -> None:
        self.tools(DEPLOYING)
        engine = engines.ensure(self.state, self.console)
        prefix = push if not push or push.endswith("/") else f"{push}/"
        arch = arch or machine_arch()
        builder = Builder(engine, self.cache, toolchain, self.console, prefix, arch, monitoring)
        references = self.images(builder, push=bool(push))
        for name, size in builder.sizes(references).items():
            self.console.say(f"  {size / 2**20:6.0f} MiB  {references[name]}")
        if push:
            said = f"{self.state.pushed_images}; EFFECTIVELY_ONCE_IMAGES={self.state.pushed_images} has them deployed"
        else:
            said = f"{self.state.images}; the Pulumi program reads them there"
        self.console.say(f"✓ references are in {said}")

    def write_sboms(self, toolchain: Toolchain, image: str, arch: str) -> None:
        """Write what is in each image, or in one, into files; build what is missing. Raises BusyError as `up`."""
        from infra.images import sbom  # noqa: PLC0415 - its packages are nothing that a deployment needs

        with exclusive(self.state, "make sbom"):
            self.state.make()
            engine = engines.ensure(self.state, self.console)
            arch, watch = arch or machine_arch(), image == MONITORING
            builder = Builder(engine, self.cache, toolchain, self.console, arch=arch, monitoring=watch)
            for path, parts in sbom.write_sboms(builder, image, CHECKOUT / sbom.FOLDER):
                self.console.say(f"  {parts:6} parts  {path}")

    def docker_host(self) -> str | None:
        """DOCKER_HOST of the engine, None for the machine's own or when none runs."""
        engine = engines.running()
        return engine.host if engine else None

    def kind(self, engine: Engine) -> Kind:
        """Return kind on an engine."""
        return Kind(self.state.programs / "kind", engine, self.state.kubeconfig, self.state.root / "kind.log")

    def stack(self) -> Stack:
        """Return the stack of this checkout."""
        return Stack(self.state, CHECKOUT)

    def _cluster(self, kind: Kind, builder: Builder, nodes: int, brokers: int = 1) -> None:
        containers = kind.nodes()
        known = Record.read(self.state.record)
        action = decide(known, containers, nodes)
        if action == "foreign":
            raise EngineError(
                f"there is a kind cluster {NAME!r} that {self.state.root} knows nothing of: somebody else's, or its "
                f"state was lost. Delete it (kind delete cluster --name {NAME}), or set EFFECTIVELY_ONCE_STATE to its "
                "state"
            )
        if action == "other shape":
            raise EngineError(
                f"the cluster has {len(containers)} node(s) and this profile needs {nodes}: `make down` first"
            )
        if action == "use" and known is not None and known.brokers != brokers:
            raise EngineError(
                f"the cluster was made with {known.brokers} Kafka broker(s) and this profile has {brokers}, which is "
                "another quorum: `make down` first"
            )
        if action == "use":
            return
        # Asked for first: a setting that is wrong is refused while nothing is changed.
        published = node_image.find_published(kind.engine, self.state.refusal, self.console)
        if action == "replace":
            self.console.say("  the cluster of an interrupted or restarted machine is made anew")
            kind.delete()
        # What a former cluster held is gone, so what Pulumi knows of it describes nothing.
        self.stack().forget()
        needs.require_ports()
        record = Record("creating", published or builder.node(), nodes, published is not None, brokers)
        record.write(self.state.record)
        try:
            kind.create(record.image, nodes, self.console, published=record.published)
        except EngineError:
            kind.delete()
            self.state.record.unlink()
            if record.published:
                self.console.say(f"  {record.image} did not start here; {node_image.SETTING}=own builds a node image")
            raise
        kubectl = Kubectl(self.state.programs / "kubectl", self.state.kubeconfig)
        network.connect(kind, kubectl, self.console, published=record.published)
        replace(record, state="ready").write(self.state.record)

    def down(self, *, forget: bool = False) -> None:
        """Delete the cluster with everything in it, the stack's state, and the engine if it is ours.

        `forget` also drops a state that can no longer be read, and the passphrase with the last stack of the backend.
        Raises EngineError when there is a cluster that is not ours or cannot be deleted, BusyError when another command
        is at work here; then nothing else is done.
        """
        with exclusive(self.state, "make down"):
            self._down(forget=forget)

    def _down(self, *, forget: bool) -> None:
        if engine := self._engine():
            self._delete(self.kind(engine), forget=forget)
        stack = self.stack()
        if forget or not (self.state.programs / "pulumi").exists():
            stack.erase()
        else:
            stack.forget()
        if forget:
            self._drop_passphrase()
        self.state.record.unlink(missing_ok=True)
        self.state.kubeconfig.unlink(missing_ok=True)
        with self.console.step("stop the container engine"):
            engines.stop(self.state)

    def _engine(self) -> Engine | None:
        try:
            return engines.running()
        except EngineError as error:
            # `make up` refuses it too, so a cluster of ours is on it only if it was newer then.
            self.console.say(f"  {error}. A cluster that it holds all the same: kind delete cluster --name {NAME}")
            return None

    def _delete(self, kind: Kind, *, forget: bool) -> None:
        containers = kind.nodes()
        if containers and Record.read(self.state.record) is None and not forget:
            raise EngineError(
                f"the kind cluster {NAME!r} was not made with the state in {self.state.root}; it is left alone"
            )
        if (self.state.programs / "kind").exists():
            with self.console.step("delete cluster, network and volumes"):
                kind.delete()
        elif containers:
            raise EngineError(
                f"there is no {self.state.programs / 'kind'} to delete the cluster with, was the cache deleted? "
                "`make up` makes it again; then `make down`"
            )

    def _drop_passphrase(self) -> None:
        if others := self.state.stacks():
            self.console.say(f"  left in {self.state.backend}, and the passphrase with it: {', '.join(others)}")
        else:
            self.state.passphrase.unlink(missing_ok=True)
