"""`make up` and `make down`: from nothing to a deployed platform, and back to nothing.

Each step looks first whether its work is done, so that a second call changes nothing and one that was interrupted
goes on.
"""

from __future__ import annotations

import shutil
import socket
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from images.builder import Builder, write_references
from infra.cluster import engine as engines
from infra.cluster import network
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import API_PORT, NAME, PORTS, Kind
from infra.cluster.kubectl import Kubectl
from infra.cluster.pulumi import Stack
from infra.cluster.record import Record, decide
from infra.cluster.state import StateDirectory, link_programs, state_directory, write_launcher
from infra.console import Console
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.crds import resource_definitions
from infra.toolchain.go_tools import machine_arch
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.toolchain.programs import find_programs

NODES = {"laptop": 1, "ci": 1, "chaos": 2}
DISK_NEEDED_GIB = 14.0  # measured: images and layers 6, their copy on the node 5, volumes 1; the rest is air
GIB = 1024**3


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

    def up(self, toolchain: Toolchain, profile: str) -> None:
        """Everything, from the tools to the deployed pipeline.

        Raises EngineError, ToolchainError, StateError or PulumiError for the first thing that fails.
        """
        if profile not in NODES:
            raise EngineError(f"profile {profile!r} has no cluster of its own; those that have: {', '.join(NODES)}")
        self.tools()
        engine = engines.ensure(self.state, self.console)
        self._room(engine)
        references = self.images(engine, toolchain)
        kind = self.kind(engine)
        self._cluster(kind, Builder(engine, self.cache, toolchain, self.console), NODES[profile])
        if lacking := self._lacking(kind, references):
            with self.console.step(f"load {len(lacking)} images", expected_s=60):
                kind.load(lacking)
        stack = self.stack(engine)
        stack.select(profile)
        stack.up(self.console)

    def tools(self) -> None:
        """Find or build programs and definitions, and put them where `make env` points."""
        self.state.make()
        self.state.ensure_passphrase()
        programs = dict(find_programs(self.cache, self.console, self.state.foreign_path()))
        if not Path(programs["pulumi"]).with_name("pulumi-language-python").exists():
            programs["pulumi-language-python"] = write_launcher(
                self.state, "pulumi-language-python", "infra.language_host", CHECKOUT
            )
        link_programs(self.state, programs)
        link = self.state.resource_definitions
        definitions = resource_definitions(self.cache)
        if not (link.is_symlink() and link.readlink() == definitions):
            link.unlink(missing_ok=True)
            link.symlink_to(definitions)

    def images(self, engine: Engine, toolchain: Toolchain, prefix: str = "") -> dict[str, str]:
        """Build what is missing and write the references for the Pulumi program."""
        references = Builder(engine, self.cache, toolchain, self.console, prefix).published()
        write_references(self.state.images, {**references, "wheel-digest": toolchain.wheel.sha256})
        return references

    def show_images(self, toolchain: Toolchain, push: str, arch: str) -> None:
        """Build the images, print their sizes and, with a prefix to `push` to, push them."""
        self.tools()
        engine = engines.ensure(self.state, self.console)
        prefix = push if not push or push.endswith("/") else f"{push}/"
        builder = Builder(engine, self.cache, toolchain, self.console, prefix, arch or machine_arch())
        references = builder.published()
        for name, size in builder.sizes(references).items():
            self.console.say(f"  {size / 2**20:6.0f} MiB  {references[name]}")
        if push:
            builder.push(references.values())
        write_references(self.state.images, {**references, "wheel-digest": toolchain.wheel.sha256})
        self.console.say(f"✓ references are in {self.state.images}; the Pulumi program reads them there")

    def docker_host(self) -> str | None:
        """DOCKER_HOST of the engine, None for the machine's own or when none runs."""
        engine = engines.running()
        return engine.host if engine else None

    def kind(self, engine: Engine) -> Kind:
        """Return kind on an engine."""
        return Kind(self.state.programs / "kind", engine, self.state.kubeconfig, self.state.root / "kind.log")

    def stack(self, engine: Engine | None) -> Stack:
        """Return the stack of this checkout."""
        return Stack(self.state, CHECKOUT, engine.host if engine else None)

    def _cluster(self, kind: Kind, builder: Builder, nodes: int) -> None:
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
        if action == "use":
            return
        if action == "replace":
            self.console.say("  the cluster of an interrupted or restarted machine is made anew")
            kind.delete()
        # What a former cluster held is gone, so what Pulumi knows of it describes nothing.
        self.stack(kind.engine).forget()
        self._ports()
        image = builder.node()
        record = Record("creating", image, nodes)
        record.write(self.state.record)
        try:
            kind.create(image, nodes, self.console)
        except EngineError:
            kind.delete()
            self.state.record.unlink()
            raise
        network.connect(kind, Kubectl(self.state.programs / "kubectl", self.state.kubeconfig), self.console)
        replace(record, state="ready").write(self.state.record)

    def _lacking(self, kind: Kind, references: dict[str, str]) -> list[str]:
        lacking: set[str] = set()
        for node in kind.nodes():
            lacking |= set(references.values()) - kind.images_on(node)
        return sorted(lacking)

    def _ports(self) -> None:
        taken = [port for port in (API_PORT, *PORTS) if _taken(port)]
        if taken:
            raise EngineError(
                f"port {', '.join(map(str, taken))} on 127.0.0.1 is taken, and the cluster publishes its services "
                f"there; find who has it (ss -ltnp 'sport = :{taken[0]}') and stop that"
            )

    def _room(self, engine: Engine) -> None:
        place = Path(engine.run("info", "--format", "{{.DockerRootDir}}"))
        free = shutil.disk_usage(place if place.exists() else Path("/")).free / GIB
        if free < DISK_NEEDED_GIB and not self.state.record.exists():
            raise EngineError(
                f"{free:.1f} GiB are free in {place}, {DISK_NEEDED_GIB:.0f} are needed for images and volumes; make "
                "room, or set EFFECTIVELY_ONCE_CACHE to a directory on a larger disk"
            )

    def down(self, *, forget: bool = False) -> None:
        """Delete the cluster with everything in it, the stack's state, and the engine if it is ours.

        `forget` also drops a state that can no longer be read.
        """
        engine = engines.running()
        if engine is not None and (self.state.programs / "kind").exists():
            kind = self.kind(engine)
            containers, known = kind.nodes(), Record.read(self.state.record)
            if containers and known is None and not forget:
                raise EngineError(
                    f"the kind cluster {NAME!r} was not made with the state in {self.state.root}; it is left alone"
                )
            with self.console.step("delete cluster, network and volumes"):
                kind.delete()
        if (self.state.programs / "pulumi").exists() and not forget:
            self.stack(engine).forget()
        elif forget:
            shutil.rmtree(self.state.backend, ignore_errors=True)
            self.state.passphrase.unlink(missing_ok=True)
            self.stack(engine).config_file.unlink(missing_ok=True)
        self.state.record.unlink(missing_ok=True)
        self.state.kubeconfig.unlink(missing_ok=True)
        with self.console.step("stop the container engine"):
            engines.stop(self.state)


def _taken(port: int) -> bool:
    with closing(socket.socket()) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False
