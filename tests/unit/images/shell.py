"""Runs a script of an image under bash, with fakes first on PATH."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

Start = Callable[..., subprocess.CompletedProcess[str]]
"""Runs a script with these words and this environment."""


def run(script: Path, *words: str, env: dict[str, str], path: Path) -> subprocess.CompletedProcess[str]:
    """Run it with nothing in its environment but `env` and a PATH that begins with `path`."""
    return subprocess.run(
        ["/bin/bash", script, *words],
        env={"PATH": f"{path}:/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def elsewhere(script: Path, into: Path, places: dict[str, Path]) -> Path:
    """Copy a script, with places of the image turned into folders of the test."""
    text = script.read_text()
    for place, path in places.items():
        assert place in text, f"{script} no longer names {place}"
        text = text.replace(place, str(path))
    copy = into / script.name
    copy.write_text(text)
    return copy
