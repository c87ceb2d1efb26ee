"""Builds images that are not there yet, under names made from their contents; saves, pushes and lists them."""

from __future__ import annotations

import json
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


@dataclass
class Builder:
    """Builds on one engine for one architecture. `prefix` goes before every published name (a registry's path)."""

    engine: Engine
    cache: Cache
    toolchain: Toolchain
    console: Console
    prefix: str = ""
    arch: str = go_tools.machine_arch()
    _keys: dict[str, str] = field(default_factory=dict, init=False)
    _tags: dict[str, str] = field(default_factory=dict, init=False)

    def published(self) -> dict[str, str]:
        """Build what a deployment needs, images with users' wheels among it; references by name."""
        built = [*catalogue.images(self.cache, self.toolchain, self.arch), *catalogue.jobs(self.cache)]
        for image in built:
            self._ensure(image)
        return {image.name: self._tags[image.name] for image in built if catalogue.published(image.name)}

    def node(self) -> str:
        """Build the node image with what it brings; its reference."""
        base = catalogue.base(self.arch)
        self._ensure(base)
        parts = catalogue.control_plane(self.cache, self.arch)
        for part in parts:
            self._ensure(part)
        names = [self._tags[one.name] for one in (base, *parts)]
        key = digest({"images": " ".join(self._keys[one.name] for one in (base, *parts))})
        saved = self.cache.get("node-images", key, lambda folder: self.save(names, folder / "images.tar"))
        node = catalogue.node(self.cache, self.arch, saved / "images.tar", self._tags["base"])
        self._ensure(node)
        return self._tags["node"]

    def _ensure(self, image: Image) -> None:
        parent_key = self._keys[image.parent] if image.parent else ""
        key = self._keys[image.name] = image.key(parent_key)
        name = f"effectively-once-{image.name}:{key[:TAG_DIGITS]}"
        prefix = self.prefix if catalogue.published(image.name) else ""
        own = self._tags[image.name] = image.tag or f"{prefix}{name}"
        if self._label(own) == key:
            return
        with self.console.step(f"image {image.name}"):
            if image.name == "base":
                self._import(own, key)
            else:
                arguments = {"PARENT": self._tags[image.parent]} if image.parent else {}
                log = self.cache.root / "logs" / f"image-{image.name}.log"
                files = dict(image.files)
                recipe = files["Dockerfile"]
                text = recipe if isinstance(recipe, bytes) else recipe.read_bytes()
                files["Dockerfile"] = text + f"LABEL effectively-once.key={key}\n".encode()
                context.build(self.engine, own, files, arguments, log)

    def _import(self, tag: str, key: str) -> None:
        path = rootfs.rootfs(self.cache, self.arch, self.console)
        self.engine.run("import", "--change", f"LABEL effectively-once.key={key}", path, tag)

    def _label(self, tag: str) -> str:
        words = ("image", "inspect", "--format", '{{index .Config.Labels "effectively-once.key"}}', tag)
        return self.engine.run(*words, check=False).strip()

    def save(self, tags: Iterable[str], path: Path) -> None:
        """Write images into one archive; layers they share are in it once."""
        self.engine.run("save", "--output", path, *tags)

    def push(self, tags: Iterable[str]) -> None:
        """Push images to the registry that their names begin with.

        Raises EngineError with what the engine said.
        """
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

    def sizes(self, tags: Mapping[str, str]) -> dict[str, int]:
        """Bytes of each image, layers of its parents included."""
        return {
            name: int(self.engine.run("image", "inspect", "--format", "{{.Size}}", tag)) for name, tag in tags.items()
        }


def write_references(path: Path, references: Mapping[str, str]) -> None:
    """Write the file that the Pulumi program reads, if it says something else now."""
    text = json.dumps(references, indent=1, sort_keys=True) + "\n"
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
