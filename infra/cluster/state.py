"""Where this project keeps what must outlive a checkout: kubeconfig, Pulumi's state, its passphrase, data of runs.

Unlike the artefact cache it cannot be built again: who deletes it can no longer update what was deployed with it.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.errors import UserError
from infra.toolchain.cache import cache_root

STACK = "laptop"
PROJECT = "effectively-once"
"""As Pulumi.yaml names it: the backend keeps stacks by project."""
USERS = (
    "KUBECONFIG",
    "PULUMI_BACKEND_URL",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
    "PULUMI_STACK",
    "EFFECTIVELY_ONCE_IMAGES",
)
"""Variables with which a user names a cluster and a stack of their own."""


@dataclass(frozen=True)
class StateDirectory:
    """Paths below the state directory; nothing is made by asking for one."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """Of the cluster that `make up` made."""
        return self.root / "kubeconfig"

    @property
    def backend(self) -> Path:
        """Pulumi's file backend."""
        return self.root / "pulumi"

    @property
    def passphrase(self) -> Path:
        """What Pulumi's secrets are encrypted with; made once, readable by its owner only."""
        return self.root / "passphrase"

    @property
    def record(self) -> Path:
        """What is known of the cluster that `make up` made; there is none where it made none."""
        return self.root / "cluster.json"

    @property
    def lock(self) -> Path:
        """Held by the one command that changes what is here; names it."""
        return self.root / "lock"

    @property
    def runs(self) -> Path:
        """What `make run` keeps, a folder a pipeline, and beside each the lock of who runs it."""
        return self.root / "run"

    @property
    def refusal(self) -> Path:
        """Why kind's published node image was not to be had when it was last asked for."""
        return self.root / "node-image.json"

    @property
    def images(self) -> Path:
        """Image references by name, as the last build of the images wrote them."""
        return self.root / "images.json"

    @property
    def pushed_images(self) -> Path:
        """The same, with digests, of images that were pushed to a registry; this machine's cluster runs its own."""
        return self.root / "images-pushed.json"

    @property
    def programs(self) -> Path:
        """A directory for PATH: links to the tools that were built."""
        return self.root / "bin"

    @property
    def engine(self) -> Path:
        """What belongs to the container engine that the project started: its settings and log."""
        return self.root / "engine"

    @property
    def packet_filter(self) -> Path:
        """The machine's packet filter before that engine started."""
        return self.engine / "before.json"

    @property
    def resource_definitions(self) -> Path:
        """A link to the generated custom resource definitions."""
        return self.root / "crds"

    def make(self) -> None:
        """Create the directories, private to their owner."""
        for path in (self.root, self.backend, self.programs, self.engine):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def stacks(self) -> list[str]:
        """Every stack in the backend, as project/name; others than ours where somebody used it for theirs."""
        files = (path for kind in ("json", "json.gz") for path in self.backend.glob(f".pulumi/stacks/*/*.{kind}"))
        return sorted({f"{path.parent.name}/{path.name.partition('.json')[0]}" for path in files})

    def ensure_passphrase(self) -> None:
        """Write a random passphrase unless there is one.

        Raises StateError when Pulumi has state already: a new passphrase could not read it.
        """
        if self.passphrase.is_file():
            return
        if stacks := self.stacks():
            raise StateError(
                f"{self.passphrase} is lost, and {', '.join(stacks)} in {self.backend} was encrypted with it; put it "
                f"back from your backup, or give that up: `make down FORGET=1` drops {PROJECT}/{STACK}, for any other "
                "delete its files below .pulumi/stacks there"
            )
        handle = os.open(self.passphrase, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(secrets.token_urlsafe(32) + "\n")

    def environment(self, docker_host: str | None = None) -> dict[str, str]:
        """What a shell needs so that plain `kubectl` and `pulumi` work on this cluster.

        PATH is only what comes first. PULUMI_HOME stays the user's: it has their logins and plugins, and with the
        backend in a variable and the provider on PATH Pulumi neither reads nor writes any of these for ours.
        """
        env = {
            "PATH": str(self.programs),
            "KUBECONFIG": str(self.kubeconfig),
            "PULUMI_BACKEND_URL": f"file://{self.backend}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.passphrase),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_STACK": STACK,
            "EFFECTIVELY_ONCE_IMAGES": str(self.images),
        }
        return {**env, **({"DOCKER_HOST": docker_host} if docker_host else {})}

    def process_environment(self) -> dict[str, str]:
        """The same for a child process of ours: PATH complete, everything else of this process kept.

        Where `make up` made no cluster, what the user's shell says of kubeconfig and stack is what counts.
        """
        own = self.environment()
        if not self.record.exists():
            own |= {name: os.environ[name] for name in USERS if os.environ.get(name)}
        return {**os.environ, **own, "PATH": f"{own['PATH']}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    def foreign_path(self, env: Mapping[str, str] | None = None) -> str:
        """PATH without our own links, which `make env` may have put on it: a program found there would be itself."""
        path = (os.environ if env is None else env).get("PATH", os.defpath)
        return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry != str(self.programs))


class StateError(UserError):
    """What is kept between runs does not fit together; the message says what to do."""


def state_directory(env: Mapping[str, str] | None = None) -> StateDirectory:
    """EFFECTIVELY_ONCE_STATE, else below XDG_STATE_HOME, else below ~/.local/state."""
    env = os.environ if env is None else env
    own = env.get("EFFECTIVELY_ONCE_STATE")
    if own:
        return StateDirectory(Path(own).expanduser().absolute())
    xdg = env.get("XDG_STATE_HOME")
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".local" / "state"
    return StateDirectory(base / "effectively-once")


def shell_exports(env: Mapping[str, str]) -> str:
    """Lines for `eval`: each variable exported, PATH put first."""
    lines = []
    for name, value in env.items():
        quoted = shlex.quote(value)
        lines.append(f'export {name}={quoted}:"$PATH"' if name == "PATH" else f"export {name}={quoted}")
    return "\n".join(lines) + "\n"


def link_programs(state: StateDirectory, programs: Mapping[str, Path], keep: Collection[str] = ()) -> None:
    """Make PATH's directory hold exactly these programs, as links; and those to `keep` that are there already."""
    state.programs.mkdir(parents=True, exist_ok=True)
    for left in state.programs.iterdir():
        if left.name not in programs and not (left.name in keep and left.exists()):
            left.unlink()
    for name, target in programs.items():
        link = state.programs / name
        if link.is_symlink() and link.readlink() == target:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def write_launcher(state: StateDirectory, name: str, module: str, checkout: Path) -> Path:
    """Write a program of ours that runs `module` of this checkout with this Python; its path."""
    path = state.root / f"{name}.sh"
    path.write_text(
        f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(checkout))}${{PYTHONPATH:+:$PYTHONPATH}} "
        f'exec {shlex.quote(sys.executable)} -m {module} "$@"\n'
    )
    path.chmod(0o755)
    return path


def engine_data(root: Path | None = None) -> Path:
    """Where an engine of our own keeps images and layers: in the artefact cache, they can be built again."""
    return (root or cache_root()) / "engine"
