"""What the content of an epoch depends on beside the code: pinned in every declaration with the wheel (R3)."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from effectively_once.ledger.pinned_version import IMAGE

PACKAGES = ("numpy", "orjson", "pandas", "pyarrow", "xxhash")
"""They write values, group rows, or say which shard a key is of. What only carries bytes is not here."""
IMAGE_VARIABLE = "EFFECTIVELY_ONCE_IMAGE"
"""Of a pod, whose image has a name that nothing in it knows."""
CLASS_PATH = "spark.driver.extraClassPath"
_END = 64 << 10
"""A jar's table of contents is at its end, with a checksum of each entry."""


def runtime_of(conf: Mapping[str, str] | None) -> dict[str, str]:
    """Return component -> version, of what is installed here; `jars` is a digest (16 hex digits).

    In a pod also its `image`, which is told, and not compared.

    Nothing is imported and no JVM is started for it. Executors have the driver's image, or its machine.

    Args:
        conf: Spark's settings of the place; they name jars beside Spark's own. None leaves jars out.

    """
    found = {"python": platform.python_version(), "java": java_version(), "spark": _spark_version()}
    found |= {name: _package_version(name) for name in PACKAGES}
    found["jars"] = None if conf is None else _digest_of_jars(conf)
    found[IMAGE] = os.environ.get(IMAGE_VARIABLE) or None
    return {name: one for name, one in sorted(found.items()) if one is not None}


def java_version() -> str | None:
    """Return what JAVA_HOME says of itself; None where that is not set, or a JDK without such a file."""
    home = os.environ.get("JAVA_HOME")
    try:
        lines = Path(home, "release").read_text(encoding="utf-8").splitlines() if home else []
    except OSError:
        return None
    return next((line.partition("=")[2].strip('"') for line in lines if line.startswith("JAVA_VERSION=")), None)


def _package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pyspark() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0]) if folders else None


def _spark_version() -> str | None:
    """Return the version of Spark's Python files, which an image has without a package's metadata."""
    place = _pyspark()
    try:
        text = (place / "version.py").read_text(encoding="utf-8") if place else ""
    except OSError:
        return None
    named = re.search(r"""^__version__[^=\n]*=\s*["']([^"']+)""", text, re.MULTILINE)
    return named[1] if named else None


def _digest_of_jars(conf: Mapping[str, str]) -> str | None:
    """Return a digest of every jar's name, size and end; None where there is none."""
    digest, count = hashlib.sha256(), 0
    for jar in sorted(_jars(conf), key=lambda jar: jar.name):
        with jar.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END))
            digest.update(f"{jar.name}\0{size}\0".encode() + hashlib.sha256(file.read()).digest())
        count += 1
    return digest.hexdigest()[:16] if count else None


def _jars(conf: Mapping[str, str]) -> Iterator[Path]:
    home = os.environ.get("SPARK_HOME")
    place = Path(home) if home else _pyspark()
    folders = [f"{place / 'jars'}/*"] if place else []
    for entry in [*folders, *conf.get(CLASS_PATH, "").split(":")]:
        if entry.endswith("/*"):
            yield from Path(entry[:-2]).glob("*.jar")
        elif entry.endswith(".jar") and Path(entry).is_file():
            yield Path(entry)
