"""Builds images that are not there yet, under names made from their contents; saves, pushes and lists them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.cluster.engine import Engine, EngineError
from infra.console import Console
from infra.images import catalogue, context, rootfs
from infra.images.catalogue import Image
from infra.toolchain import go_tools
from infra.toolchain.cache import Cache, digest
from infra.toolchain.prepare import Toolchain

TAG_DIGITS = 12
LABEL = "effectively-once.key"
UNNAMED = "building"
"""Tag of an image until it is known what is in it."""
_PUSHED = re.compile(r"\bdigest: (sha256:[0-9a-f]{64})\b")


@dataclass
class Builder:
    """Builds on one engine for one architecture. `prefix` goes before every published name (a registry's path)."""

    engine: Engine
    cache: Cache
    toolchain: Toolchain
    console: Console
    prefix: str = ""
    arch: str = go_tools.machine_arch()
    monitoring: bool = False
    """Whether to build what watches, too."""
    _contents: dict[str, str] = field(default_factory=dict, init=False)
    _tags: dict[str, str] = field(default_factory=dict, init=False)

    def build_all(self) -> dict[str, str]:
        """Build what a deployment needs, images with users' wheels among it; references by name."""
        built = self.list_images()
        for image in built:
            self._ensure(image)
        return {image.name: self._tags[image.name] for image in built if catalogue.is_published(image.name)}

    def list_images(self) -> list[Image]:
        """Return every image that a deployment needs with what it is made of, parents first."""
        needed = [*catalogue.images(self.cache, self.console, self.toolchain, self.arch), *catalogue.jobs(self.cache)]
        return [*needed, catalogue.monitoring(self.cache, self.console, self.arch)] if self.monitoring else needed

    def query_packages(self, tag: str, *options: str) -> str:
        """Return what `dpkg-query --show` says in an image that is there."""
        words = ("run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "dpkg-query", tag, "--show")
        return self.engine.run(*words, *options)

    def node(self) -> str:
        """Build the node image with what it brings; its reference."""
        base = catalogue.base(self.arch)
        self._ensure(base)
        parts = catalogue.control_plane(self.cache, self.console, self.arch)
        for part in parts:
            self._ensure(part)
        names = [self._tags[one.name] for one in (base, *parts)]
        key = digest({"images": " ".join(self._contents[one.name] for one in (base, *parts))})
        with self.console.step("archive of what the node image brings"):
            saved = self.cache.get("node-images", key, lambda folder: self.save(names, folder / "images.tar"))
        node = catalogue.node(self.cache, self.console, self.arch, saved / "images.tar", self._tags["base"])
        self._ensure(node)
        return self._tags["node"]

    def _ensure(self, image: Image) -> None:
        """Have the image under a name that is made from what is in it, Debian's packages with their versions.

        Which these are depends on the day of the build, so a key, which is made from what an image is asked to be,
        would name several contents. Its label tells whether the image is there; a name is known once it is built.
        """
        key = image.key(self._contents[image.parent] if image.parent else "")
        if image.tag is not None:
            if self._label(image.tag) != key:
                self._build(image, image.tag, key)
            self._tags[image.name], self._contents[image.name] = image.tag, self._content(image, image.tag, key)
            return
        name = f"effectively-once-{image.name}"
        there = self._there(name, key)
        if not there:
            new = f"{name}:{UNNAMED}"
            self._build(image, new, key)
            there = [f"{name}:{self._content(image, new, key)}"]
            self.engine.run("tag", new, there[0])
            self.engine.run("rmi", new)
        content = self._contents[image.name] = there[0].rpartition(":")[2]
        prefix = self.prefix if catalogue.is_published(image.name) else ""
        own = self._tags[image.name] = f"{prefix}{name}:{content}"
        if own not in there:
            self.engine.run("tag", there[0], own)

    def _build(self, image: Image, tag: str, key: str) -> None:
        with self.console.step(f"image {image.name}"):
            if image.name == "base":
                path = rootfs.rootfs(self.cache, self.arch, self.console)
                self.engine.run("import", "--change", f"LABEL {LABEL}={key}", path, tag)
                return
            arguments = {"PARENT": self._tags[image.parent]} if image.parent else {}
            log = self.cache.root / "logs" / f"image-{image.name}.log"
            files = dict(image.files)
            recipe = files["Dockerfile"]
            text = recipe if isinstance(recipe, bytes) else recipe.read_bytes()
            files["Dockerfile"] = text + f"LABEL {LABEL}={key}\n".encode()
            context.build(self.engine, tag, files, arguments, log)

    def _content(self, image: Image, tag: str, key: str) -> str:
        """Return the name of what is in an image; one that stands on nothing has no packages."""
        packages = ""
        if image.parent or image.name == "base":
            packages = self.query_packages(tag)
        return digest({"key": key, "packages": packages})[:TAG_DIGITS]

    def _there(self, name: str, key: str) -> list[str]:
        """Return the names of images of that key, whatever registry they were named for."""
        label = f"label={LABEL}={key}"
        words = ("image", "ls", "--filter", label, "--format", "{{.Repository}}:{{.Tag}}")
        named = re.compile(rf"(.*/)?{re.escape(name)}:[0-9a-f]{{{TAG_DIGITS}}}")
        return sorted(one for one in self.engine.run(*words).split() if named.fullmatch(one))

    def _label(self, tag: str) -> str:
        words = ("image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', tag)
        return self.engine.run(*words, check=False).strip()

    def save(self, tags: Iterable[str], path: Path) -> None:
        """Write images into one archive; layers they share are in it once."""
        self.engine.run("save", "--output", path, *tags)

    def push(self, tags: Iterable[str]) -> dict[str, str]:
        """Push images to the registry that their names begin with; by tag, the reference with the pushed digest too.

        Raises EngineError with what the engine said, or when it did not name a digest.
        """
        pinned = {}
        for tag in tags:
            with self.console.step(f"push {tag}"):
                ended = subprocess.run(
                    self.engine.command("push", tag),
                    env=self.engine.environment(),
                    check=False,
                    capture_output=True,
                    text=True,
                )
                if ended.returncode:
                    raise EngineError(
                        f"{tag} was not pushed: {ended.stderr.strip()}; log in with `docker login`, and check PUSH"
                    )
                digest = _PUSHED.search(ended.stdout)
                if digest is None:
                    raise EngineError(
                        f"{tag} was pushed, and the engine did not say with which digest: "
                        f"{ended.stdout.strip()[-200:]!r}; push with Docker's own engine (Debian: docker.io)"
                    )
                pinned[tag] = f"{tag}@{digest[1]}"
        return pinned

    def sizes(self, references: Mapping[str, str]) -> dict[str, int]:
        """Bytes of each image, layers of its parents included."""
        tags = {name: reference.partition("@")[0] for name, reference in references.items()}
        return {
            name: int(self.engine.run("image", "inspect", "--format", "{{.Size}}", tag)) for name, tag in tags.items()
        }


def write_references(path: Path, references: Mapping[str, str]) -> None:
    """Write the file that the Pulumi program reads, if it says something else now."""
    text = json.dumps(references, indent=1, sort_keys=True) + "\n"
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
