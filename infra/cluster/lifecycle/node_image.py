"""kind's published node image: used where it can be had, so that none has to be built.

The engine is asked once: a machine that reaches no registry loses a few seconds on its first `make up`, and none on the
next ones of that day.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from infra.cluster.engine import Engine, EngineError
from infra.console import Console
from infra.versions import KUBERNETES

SETTING = "EFFECTIVELY_ONCE_NODE_IMAGE"
AUTO, OWN = "auto", "own"
VERSION = f"v{KUBERNETES}"
# kind's name for it, without a registry: the engine knows its default one, and the mirror that may stand before it.
PUBLISHED = f"kindest/node:{VERSION}"
# docker says its first word when the registry has answered; layers of some 400 MB follow.
ANSWER_S, PULL_S = 12.0, 600.0
REMEMBERED_S = 24 * 3600.0


def find_published(engine: Engine, refusal: Path, console: Console, env: Mapping[str, str] | None = None) -> str | None:
    """Return the reference of a published node image that the engine holds now; None: one has to be built.

    Args:
        engine: it is asked for the image, and to pull it.
        refusal: a file for the reason why there was none, so that it is not asked for again within a day.
        console: gets one line that says what was found.
        env: EFFECTIVELY_ONCE_NODE_IMAGE in it is `auto` (or not set), `own` (no registry is asked), or a reference.

    Raises:
        EngineError: the setting names an image, and that one cannot be pulled or is of another Kubernetes.
    """
    asked = (os.environ if env is None else env).get(SETTING) or AUTO
    if asked == OWN:
        return None
    if asked == AUTO and engine.run("info", "--format", "{{.CgroupVersion}}", check=False) == "1":
        # Its systemd is of Debian 13; kind gave cgroup v1 up with Kubernetes 1.35 (kubernetes-sigs/kind pull 4077).
        console.say("  node image: our own; kind's does not start on cgroup v1, which the engine has")
        return None
    image = PUBLISHED if asked == AUTO else asked
    why = None
    if not engine.run("image", "inspect", "--format", "{{.Id}}", image, check=False):
        why = _recall_refusal(refusal, image) if asked == AUTO else None
        if why is None:
            with console.step(f"ask for {image}"):
                why = _pull(engine, image)
    why = why or _unfit(engine, image)
    if why is None:
        refusal.unlink(missing_ok=True)
        console.say(f"  node image: {image}, published by kind")
        return image
    if asked != AUTO:
        raise EngineError(
            f"{SETTING} names {image}, which cannot be used: {why}; correct the name, log in with `docker login`, or "
            f"unset {SETTING}: then a node image is built here"
        )
    _remember(refusal, image, why)
    console.say(f"  node image: our own; {image} is not to be had: {why}. {SETTING}={image} asks again at once")
    return None


def _pull(engine: Engine, image: str) -> str | None:
    """Pull it; why that failed, or None."""
    with subprocess.Popen(
        engine.command("pull", image),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=engine.environment(),
    ) as child:
        assert child.stdout is not None  # noqa: S101 - it was asked for
        if not any(select.select([child.stdout], [], [], ANSWER_S)):
            child.kill()
            return f"no answer within {ANSWER_S:.0f} s"
        try:
            _, said = child.communicate(timeout=PULL_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return f"it has not come within {PULL_S:.0f} s"
    words = " ".join(said.decode(errors="replace").split())[-200:]
    return (words or f"docker pull ended with {child.returncode}") if child.returncode else None


def _unfit(engine: Engine, image: str) -> str | None:
    """Say why kind could not make our cluster from it, or None."""
    words = ("run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "cat", image, "/kind/version")
    version = engine.run(*words, check=False).strip()
    if version == VERSION:
        return None
    return f"it holds Kubernetes {version}, needed is {VERSION}" if version else "it is no node image of kind"


def _recall_refusal(refusal: Path, image: str) -> str | None:
    try:
        kept = json.loads(refusal.read_text())
        age_s = time.time() - kept["at"]
        return str(kept["why"]) if kept["image"] == image and 0 <= age_s < REMEMBERED_S else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _remember(refusal: Path, image: str, why: str) -> None:
    # One that is remembered keeps its time, or it would never be asked for again where `make up` runs daily.
    if _recall_refusal(refusal, image) != why:
        refusal.write_text(json.dumps({"image": image, "why": why, "at": time.time()}))
