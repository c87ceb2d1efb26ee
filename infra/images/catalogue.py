"""Which images there are and what each is made of; what is built, and how, is in the builder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra import templating
from infra.console import Console
from infra.images import packages, rootfs, wheels
from infra.settings.images import JOB_IMAGE
from infra.toolchain import go_tools
from infra.toolchain.cache import Cache, digest
from infra.toolchain.jars import resolve_jars
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.toolchain.programs import provide
from infra.versions import COREDNS, ETCD, KUBERNETES, LOCAL_PATH_PROVISIONER, PAUSE, SPARK

FOLDER = CHECKOUT / "images"
MONITORING = "monitoring"
PUBLISHED = ("spark", "spark-operator", "kafka", "minio", "postgres", MONITORING)
"""Images that a deployment names; the others are steps on the way, or parts of a node."""
LOCAL = "effectively-once.local"
"""Repository of the control plane's images: no registry has this name, so a missing one is never asked for outside."""


@dataclass(frozen=True)
class Image:
    """One image. `inputs` are files and folders by their path in the build context, `facts` what they depend on."""

    name: str
    parent: str | None = None
    inputs: Mapping[str, Path | bytes] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    tag: str | None = None
    """A fixed name, where somebody else gives the names; else it is made from the contents."""

    @property
    def _own(self) -> dict[str, Path]:
        folder = FOLDER / (self.folder or self.name)
        found = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
        # A script that was imported or run on this machine leaves these behind.
        return {
            str(name): path for name, path in found.items() if "__pycache__" not in name.parts and name.suffix != ".pyc"
        }

    @property
    def files(self) -> dict[str, Path | bytes]:
        """The build context."""
        return {**self._own, **self.inputs}

    def key(self, parent_key: str) -> str:
        """Digest of everything the image is made of."""
        parts: dict[str, str | bytes] = {"parent": parent_key, "name": self.name}
        parts |= {f"fact:{name}": value for name, value in self.facts.items()}
        parts |= {f"file:{name}": path.read_bytes() for name, path in self._own.items()}
        parts |= {f"bytes:{name}": value for name, value in self.inputs.items() if isinstance(value, bytes)}
        return digest(parts)


def base(arch: str) -> Image:
    """The image that all others stand on."""
    return Image("base", facts={"rootfs": rootfs.key(arch)})


def images(cache: Cache, console: Console, toolchain: Toolchain, arch: str) -> list[Image]:
    """Every image that a deployment needs, parents first. Tools that are not in the cache are built."""

    def build(tool: go_tools.GoTool, name: str) -> dict[str, Path | bytes]:
        return {name: provide(cache, console, tool, arch) / name}

    with console.step("packages and jars of the images"):
        python = packages.install(cache, arch)
        s3a, agent = resolve_jars(cache, "s3a"), resolve_jars(cache, "jmx")
    classes = hashlib.sha256(toolchain.jvm_jar.read_bytes()).hexdigest()
    return [
        base(arch),
        Image("minio", "base", build(go_tools.MINIO, "minio"), {"key": go_tools.key(go_tools.MINIO, arch)}),
        Image("postgres", "base"),
        Image("java", "base"),
        Image(
            "kafka",
            "java",
            {"libs": toolchain.kafka_classpath, "agent": agent},
            {"jars": toolchain.kafka_classpath.name, "agent": agent.name},
        ),
        Image("deps", "java", {"packages": python / "packages"}, {"packages": python.name}),
        Image(
            "spark-base",
            "deps",
            {
                "spark": pyspark(),
                "jars": toolchain.spark_jars,
                "s3a": s3a,
                f"classes/{toolchain.jvm_jar.name}": toolchain.jvm_jar,
            },
            {"spark": SPARK, "jars": toolchain.spark_jars.name, "s3a": s3a.name, "classes": classes},
        ),
        Image(
            "spark-operator",
            "spark-base",
            build(go_tools.SPARK_OPERATOR_TOOL, "spark-operator"),
            {"key": go_tools.key(go_tools.SPARK_OPERATOR_TOOL, arch)},
        ),
        Image("spark", "spark-base", {"wheel": toolchain.wheel.installed}, {"wheel": toolchain.wheel.sha256}),
    ]


def monitoring(cache: Cache, console: Console, arch: str) -> Image:
    """What watches, where that is wanted: its parent is the first of those above. Its tools are built."""
    tools = {"prometheus": go_tools.PROMETHEUS_TOOL, "alertmanager": go_tools.ALERTMANAGER_TOOL}
    return Image(
        MONITORING,
        "base",
        {name: provide(cache, console, tool, arch) / name for name, tool in tools.items()},
        {name: go_tools.key(tool, arch) for name, tool in tools.items()},
    )


def jobs(cache: Cache) -> list[Image]:
    """The Spark image with a wheel more, for each wheel that is kept. Raises WheelError."""
    return [
        Image(
            f"{JOB_IMAGE}{wheel.name}",
            "spark",
            {"wheel": wheels.unpack(cache, wheel)},
            {"wheel": wheel.sha256},
            "job",
        )
        for wheel in wheels.list_kept(cache)
    ]


def list_published(cache: Cache) -> list[str]:
    """Return the names of the images that a deployment can name. Raises WheelError."""
    return [*PUBLISHED, *(image.name for image in jobs(cache))]


def is_published(name: str) -> bool:
    """Whether a deployment names the image: it is pushed, and loaded into a cluster of this machine."""
    return name in PUBLISHED or name.startswith(JOB_IMAGE)


def control_plane(cache: Cache, console: Console, arch: str) -> list[Image]:
    """Images that kubeadm and kind's storage ask for by name, on the machine's own node image."""

    def program(tool: go_tools.GoTool, name: str, version: str) -> Image:
        path = provide(cache, console, tool, arch) / name
        return Image(
            name,
            None,
            {name: path, "Dockerfile": _render("control-plane/Dockerfile.j2", program=name)},
            {"key": go_tools.key(tool, arch)},
            "control-plane",
            tag=f"{LOCAL}/{name}:{version}",
        )

    kubernetes = f"v{KUBERNETES}"
    proxy = provide(cache, console, go_tools.KUBERNETES_TOOL, arch) / "kube-proxy"
    return [
        *(
            program(go_tools.KUBERNETES_TOOL, name, kubernetes)
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        ),
        program(go_tools.ETCD_TOOL, "etcd", ETCD),
        program(go_tools.COREDNS_TOOL, "coredns", f"v{COREDNS}"),
        program(go_tools.PAUSE_TOOL, "pause", PAUSE),
        program(go_tools.LOCAL_PATH_TOOL, "local-path-provisioner", f"v{LOCAL_PATH_PROVISIONER}"),
        Image(
            "kube-proxy",
            "base",
            {"kube-proxy": proxy},
            {"key": go_tools.key(go_tools.KUBERNETES_TOOL, arch)},
            tag=f"{LOCAL}/kube-proxy:{kubernetes}",
        ),
    ]


def node(cache: Cache, console: Console, arch: str, preloaded: Path, base: str) -> Image:
    """The node image: kubelet and its tools, and an archive with the images above and the base of all others."""
    binaries = provide(cache, console, go_tools.KUBERNETES_TOOL, arch)
    inputs: dict[str, Path | bytes] = {f"bin/{name}": binaries / name for name in ("kubelet", "kubeadm", "kubectl")}
    inputs |= {
        "kind/version": f"v{KUBERNETES}".encode(),
        "kind/images/preloaded.tar": preloaded,
        "etc/containerd/config.toml": _render("node/etc/containerd/config.toml", pause=PAUSE),
        "kind/manifests/default-storage.yaml": _render(
            "node/kind/manifests/default-storage.yaml.j2",
            helper=base,
            provisioner=f"{LOCAL}/local-path-provisioner:v{LOCAL_PATH_PROVISIONER}",
        ),
    }
    return Image(
        "node",
        "base",
        inputs,
        {"key": go_tools.key(go_tools.KUBERNETES_TOOL, arch), "preloaded": preloaded.parent.name},
    )


def _render(name: str, **values: str) -> bytes:
    return templating.render(FOLDER / name, **values).encode()


def pyspark() -> Path:
    """Where Spark's files lie: the Python package that this program runs beside."""
    import pyspark as package  # noqa: PLC0415 - takes half a second

    return Path(package.__file__).parent
