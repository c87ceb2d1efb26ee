"""What of others is in an image: Debian's packages, and all that the layers' inputs bring, each by name and version.

It is read from the very files that go into the image, so that a new one cannot be forgotten: one that nothing is known
of is an error.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.utils import canonicalize_name

from infra.images import packages
from infra.images.catalogue import Image
from infra.toolchain import jar_lock, jars
from infra.toolchain.command import ToolchainError
from infra.toolchain.jar_lock import hash_file
from infra.toolchain.prepare import CHECKOUT
from infra.versions import DEBIAN, SPARK

DPKG_FORMAT = r"${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"
"""What `dpkg-query` is to say of each package."""
_ELF = b"\x7fELF"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ \\;]+)(.*(?:\n +--hash=.*)*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_JAR = re.compile(r"(?P<artifact>.+)-(?P<version>\d+\.\S*)")


@dataclass(frozen=True, order=True)
class Part:
    """One package, jar, module or program; `kind` is its type as package URLs have them (`deb`, `maven` ...).

    Attributes:
        sha256: hex, of the file itself; empty where many files were unpacked.
        published: SHA-256 (hex) of the files under one of which it was published, as a lock pins them.
        checksum: of a Go module, as go.sum has it.
        qualifiers: what else tells it from others of its name.

    """

    kind: str
    group: str
    name: str
    version: str
    sha256: str = ""
    published: tuple[str, ...] = ()
    checksum: str = ""
    qualifiers: tuple[tuple[str, str], ...] = ()


def list_parts(image: Image, images: Mapping[str, Image], debian: str, read_go: Callable[[Path], str]) -> list[Part]:
    """Return what is in an image and its parents, in order and each once.

    Args:
        image: the one that is asked for.
        images: by name, its parents among them.
        debian: what `dpkg-query` says in it, in DPKG_FORMAT.
        read_go: returns what Go has written into a program.

    Raises:
        ToolchainError: for an input of which nothing is known.

    """
    found = {*read_debian(debian)}
    layer: Image | None = image
    while layer is not None:
        for name, source in layer.inputs.items():
            if isinstance(source, Path):
                parts = [*_read_input(layer, name, source, read_go)]
                if not parts:
                    raise ToolchainError(
                        f"image {layer.name}: nothing is known of what {name} ({source}) brings; "
                        "infra/images/contents.py has to learn to read it"
                    )
                found.update(parts)
        layer = images[layer.parent] if layer.parent else None
    return sorted(found)


def read_debian(listing: str) -> Iterator[Part]:
    """Yield Debian's packages of a listing, with their source where scanners would not find it by the name."""
    for line in filter(None, listing.splitlines()):
        name, version, arch, source, of_source = line.split("\t")
        more = [("arch", arch), ("distro", DEBIAN)]
        if (source, of_source) != (name, version):
            more.append(("upstream", f"{source}@{of_source}"))
        yield Part("deb", "debian", name, version, qualifiers=tuple(more))


def read_python(folder: Path, pinned: Mapping[tuple[str, str], tuple[str, ...]]) -> Iterator[Part]:
    """Yield the Python packages that are installed in a folder, with the hashes of a lock."""
    for metadata in sorted(folder.glob("*.dist-info/METADATA")):
        about = HeaderParser().parsestr(metadata.read_text())
        name, version = str(canonicalize_name(str(about["Name"]))), str(about["Version"])
        yield Part("pypi", "", name, version, published=pinned.get((name, version), ()))


def read_hashes(*locks: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the hashes that locks of Python packages allow, by name and version."""
    entries = [entry for lock in locks for entry in _PINNED.findall(lock.read_text())]
    return {(str(canonicalize_name(name)), version): tuple(_HASH.findall(rest)) for name, version, rest in entries}


def read_jar(path: Path, locked: Mapping[str, jar_lock.Jar]) -> Part:
    """Return a jar by its coordinates: those of a lock that has its SHA-256, else those that it carries."""
    sha256 = hash_file(path)
    if (jar := locked.get(sha256)) is not None:
        more = (("classifier", jar.classifier),) if jar.classifier else ()
        return Part("maven", jar.group, jar.artifact, jar.version, sha256, qualifiers=more)
    named = _JAR.fullmatch(path.stem)
    artifact, version = (named["artifact"], named["version"]) if named else (path.stem, "")
    with zipfile.ZipFile(path) as archive:
        inside = re.compile(rf"META-INF/maven/([^/]+)/{re.escape(artifact)}/pom\.properties")
        # A jar that swallowed others may carry theirs, but only one has its name.
        groups = [found[1] for entry in archive.namelist() if (found := inside.fullmatch(entry))]
    if len(groups) == 1:
        return Part("maven", groups[0], artifact, version, sha256)
    return Part("generic", "", artifact, version, sha256)


def read_program(path: Path, told: str) -> Iterator[Part]:
    """Yield a Go program with its modules and Go's own library; `told` is what `go version -m` says of it."""
    yield Part("generic", "", path.name, "", hash_file(path))
    first, *lines = told.splitlines()
    yield Part("golang", "", "stdlib", first.rpartition(": go")[2].partition(" ")[0])
    modules: list[list[str]] = []
    for what, *words in (line.split("\t")[1:] for line in lines):
        if what == "=>":
            modules[-1] = words
        elif what in ("mod", "dep") and words[1] != "(devel)":
            modules.append(words)
    for module, version, *checksum in modules:
        group, _, name = module.rpartition("/")
        yield Part("golang", group, name, version, checksum="".join(checksum))


def _read_input(image: Image, name: str, source: Path, read_go: Callable[[Path], str]) -> Iterator[Part]:
    if source.is_file():
        with source.open("rb") as body:
            program = body.read(len(_ELF)) == _ELF
        if program:
            yield from read_program(source, read_go(source))
    locked = {one.sha256: one for lock in jars.POMS.glob(f"*/{jar_lock.NAME}") for one in jar_lock.read(lock)}
    for path in sorted(source.rglob("*.jar")) if source.is_dir() else [source] if source.suffix == ".jar" else []:
        yield read_jar(path, locked)
    pinned = read_hashes(CHECKOUT / "requirements.lock", packages.LOCK)
    if name == "spark":
        yield Part("pypi", "", "pyspark", SPARK, published=pinned["pyspark", SPARK])
    for part in read_python(source, pinned):
        # The project's wheel and those of users are in no index.
        wheel = image.facts.get("wheel")
        yield part if wheel is None else Part("generic", "", part.name, part.version, published=(wheel,))
