"""Wheels of users: what an image can take beside the library, and which ones are to have an image.

A wheel is unpacked, not installed: nothing is downloaded, built or run. So it has to be pure Python, and to need
nothing that the image does not have.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import compatible_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from infra.errors import UserError
from infra.images import packages
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import CHECKOUT
from infra.versions import SPARK

FOLDER = "job-wheels"
LIBRARY = "effectively-once"
OUR_PACKAGES = ("effectively_once", "effectively_once_jobs")
PYTHON = f"{packages.PYTHON}.2"  # of Debian 12
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)", re.MULTILINE)
_FOREIGN = re.compile(r"\.(so|pyd|dylib)$|^[^/]+\.data/")
_WAY_OUT = "or build an image of your own from ours, and name it as `image` of the pipeline"


class WheelError(UserError):
    """A wheel cannot go into an image; the message says why and what to do."""


@dataclass(frozen=True)
class UserWheel:
    """A wheel that an image can take: its name as a package index writes it, and the SHA-256 (hex) of its bytes."""

    name: str
    path: Path
    sha256: str


def list_provided() -> dict[str, str]:
    """Return what a wheel may require: versions of what is in the image, by name."""
    library = tomllib.loads((CHECKOUT / "pipelines" / "pyproject.toml").read_text())["project"]["version"]
    lock = _PINNED.findall(packages.LOCK.read_text())
    pinned = {str(canonicalize_name(name)): str(version) for name, version in lock}
    return {**pinned, "pyspark": SPARK, LIBRARY: library}


def read(path: Path) -> UserWheel:
    """Look at a wheel.

    Raises:
        WheelError: it is none, is damaged, is not pure Python of the image's version, needs what the image does not
            have, or would hide what it has.

    """
    try:
        name, _, _, tags = parse_wheel_filename(path.name)
        body = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            entries = archive.namelist()
            (metadata,) = [entry for entry in entries if re.fullmatch(r"[^/]+\.dist-info/METADATA", entry)]
            about = HeaderParser().parsestr(archive.read(metadata).decode())
    except OSError as error:
        raise WheelError(f"{path} cannot be read: {error.strerror}; `python -m build --wheel` makes one") from error
    except (InvalidWheelFilename, zipfile.BadZipFile, ValueError) as error:
        raise WheelError(f"{path} is no wheel: {error}; `python -m build --wheel` makes one") from error
    if damaged:
        raise WheelError(f"{path} is damaged at {damaged}; build it anew")
    if not tags & {*compatible_tags(tuple(map(int, packages.PYTHON.split("."))), None, ["any"])}:
        raise WheelError(f"{path} is not pure Python for {packages.PYTHON}: build one that ends with -py3-none-any.whl")
    foreign = [entry for entry in entries if _FOREIGN.search(entry)]
    if foreign:
        raise WheelError(f"{path} has parts that would have to be installed, {foreign[0]}: leave them out, {_WAY_OUT}")
    for wrong in [*_unmet(about.get_all("Requires-Dist", []), str(about["Requires-Python"] or "")), *_hidden(entries)]:
        raise WheelError(f"{path} {wrong}")
    return UserWheel(name, path, hashlib.sha256(body).hexdigest())


def keep(cache: Cache, path: Path) -> UserWheel:
    """Have an image made of a wheel from now on, in place of an earlier one of its name. Raises WheelError."""
    found = read(path)
    folder = cache.root / FOLDER / found.name
    folder.mkdir(parents=True, exist_ok=True)
    beside = cache.root / FOLDER / f"{path.name}.tmp"
    shutil.copyfile(path, beside)
    target = folder / path.name
    beside.replace(target)
    for other in folder.iterdir():
        if other != target:
            other.unlink()
    return UserWheel(found.name, target, found.sha256)


def list_kept(cache: Cache) -> list[UserWheel]:
    """Return the wheels that are to have an image, by name. Raises WheelError for one that no longer fits."""
    return [read(path) for path in sorted((cache.root / FOLDER).glob("*/*.whl"))]


def unpack(cache: Cache, wheel: UserWheel) -> Path:
    """Return the folder of a wheel's content."""

    def build(directory: Path) -> None:
        with zipfile.ZipFile(wheel.path) as archive:
            archive.extractall(directory / "content")

    return cache.get("job-wheel", wheel.sha256, build) / "content"


def _unmet(requirements: list[str], python: str) -> Iterator[str]:
    have = list_provided()
    if not SpecifierSet(python).contains(PYTHON):
        yield f"needs Python {python}, and the image has {PYTHON}: widen its requires-python, {_WAY_OUT}"
    where = {
        "python_version": packages.PYTHON,
        "python_full_version": PYTHON,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "extra": "",
    }
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate(where):
            continue
        version = have.get(canonicalize_name(requirement.name))
        if version is None:
            yield f"needs {requirement}, which is not in the image: put its code into your wheel, {_WAY_OUT}"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"needs {requirement}, and the image has {version}: widen the requirement, {_WAY_OUT}"


def _hidden(entries: list[str]) -> Iterator[str]:
    taken = {*OUR_PACKAGES, *(name.replace("-", "_") for name in list_provided())}
    ours = sorted({entry.partition("/")[0].removesuffix(".py") for entry in entries} & taken)
    if ours:
        yield f"brings {ours[0]}, which the image has: leave it out of the wheel"
