"""The container engine: one that runs already, else Docker from Debian's packages with a data folder of its own.

Our own engine listens on its own socket and has no default bridge, so it does not meet another one's containers,
networks or images. What it changed on the machine is undone when it is stopped (infra.cluster.firewall).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from infra.cluster import firewall, oci_shim
from infra.cluster.state import StateDirectory, engine_data
from infra.console import Console
from infra.errors import UserError
from infra.toolchain.command import run as run_logged
from infra.toolchain.command import tail

OLDEST = (20, 10)
PACKAGES = ("docker.io", "iptables")
# Unix sockets have paths of at most 107 bytes: a folder that is short wherever the state directory is.
RUN = Path("/run/effectively-once")
START_S, STOP_S = 60.0, 60.0
NO_INSTALL = "NO_INSTALL"


class EngineError(UserError):
    """There is no container engine to be had; the message says why and what to do."""


@dataclass(frozen=True)
class Engine:
    """A running engine. `host` is the DOCKER_HOST of our own one, None for the machine's."""

    docker: Path
    host: str | None

    def command(self, *words: str | Path) -> list[str]:
        """A docker command line for it."""
        return [str(self.docker), *(("--host", self.host) if self.host else ()), *map(str, words)]

    def run(self, *words: str | Path, stdin: bytes | None = None, check: bool = True) -> str:
        """Run a docker command and return its output, without the last line break.

        Raises EngineError with what it said.
        """
        ended = subprocess.run(
            self.command(*words),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            env=self.environment(),
        )
        if check and ended.returncode:
            said = ended.stderr.decode(errors="replace").strip()
            raise EngineError(f"docker {' '.join(map(str, words[:3]))}: {said}")
        return ended.stdout.decode(errors="replace").rstrip("\n")

    def environment(self) -> dict[str, str]:
        """For children that call docker by name (kind does). The classic builder: older engines have no other."""
        env = {**os.environ, "DOCKER_BUILDKIT": "0"}
        env["PATH"] = f"{self.docker.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        return {**env, "DOCKER_HOST": self.host} if self.host else env


def parse_version(text: str) -> tuple[int, ...] | None:
    """`20.10.24+dfsg1` as (20, 10, 24); None for what is no version."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    return tuple(int(part) for part in found.groups() if part) if found else None


def running() -> Engine | None:
    """Our own engine if it answers, else the machine's, else None.

    Raises EngineError when the machine's is too old.
    """
    docker = _docker()
    if docker is None:
        return None
    own = Engine(docker, f"unix://{RUN / 'docker.sock'}")
    if (RUN / "docker.sock").exists() and _version(own):
        return own
    machine = Engine(docker, None)
    version = _version(machine)
    if version is None:
        return None
    if version < OLDEST:
        raise EngineError(
            f"the container engine here is {'.'.join(map(str, version))}, {'.'.join(map(str, OLDEST))} or newer is "
            "needed; update it, or stop it and let `make up` start its own"
        )
    return machine


def ensure(state: StateDirectory, console: Console, env: Mapping[str, str] | None = None) -> Engine:
    """Return a running engine; as root on Debian one is installed and started when there is none.

    Raises EngineError when there is none and none may be installed.
    """
    found = running()
    if found:
        return found
    env = os.environ if env is None else env
    if not shutil.which("dockerd", path=_system_path()):
        _install(console, env)
        found = running()
        if found:
            return found
    if os.geteuid() != 0:
        raise EngineError(
            "dockerd is installed but does not answer, and only root may start it; start it (systemctl start docker), "
            "join the group docker, or run `make up` as root"
        )
    return _start(state, console)


def _install(console: Console, env: Mapping[str, str]) -> None:
    refusal = why_not_here(env=env)
    if refusal:
        raise EngineError(refusal)
    install_packages(PACKAGES, "container engine", console)


def why_not_install(env: Mapping[str, str], *, root: bool, apt: bool, missing: str = "Docker") -> str | None:
    """Say why packages may not be installed here, with the way out; None when they may."""
    if env.get(NO_INSTALL):
        return f"{missing} is needed, it is not here, and {NO_INSTALL} is set; install it, or unset {NO_INSTALL}"
    if not apt:
        return f"{missing} is needed and this machine has no apt-get to install it with; install and start it"
    if not root:
        return f"{missing} is needed and only root can install it; run `make up` as root, or have it installed"
    return None


def why_not_here(missing: str = "Docker", env: Mapping[str, str] | None = None) -> str | None:
    """`why_not_install` of this machine and user."""
    root, apt = os.geteuid() == 0, shutil.which("apt-get") is not None
    return why_not_install(os.environ if env is None else env, root=root, apt=apt, missing=missing)


def ensure_program(program: str, what: str, console: Console, missing: str | None = None) -> None:
    """Install a program from the Debian package of its name where it is missing and packages may be installed.

    Args:
        program: its name.
        what: what it is for, for the line that says so.
        console: gets that line.
        missing: how a refusal names it, if not by its name.

    Raises EngineError when they may not, ToolchainError when apt fails.
    """
    if shutil.which(program) is not None:
        return
    if refusal := why_not_here(missing or program):
        raise EngineError(refusal)
    install_packages((program,), what, console)


def install_packages(packages: Sequence[str], what: str, console: Console) -> None:
    """Install Debian packages, said before it is done.

    Raises ToolchainError when apt fails.
    """
    console.say(f"  {what}: will install {', '.join(packages)} with apt-get; {NO_INSTALL}=1 refuses")
    log = engine_data().parent / "logs" / "apt.log"
    # In run level 1 packages start no service of theirs: what is needed is started here, with data of its own.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    hint = "check that apt reaches its mirror, or install the packages yourself"
    with console.step(f"install {', '.join(packages)}"):
        run_logged("apt-get update", ["apt-get", "update", "-q"], log=log, hint=hint, env=quiet)
        words = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
        run_logged("apt-get install", words, log=log, hint=hint, env=quiet)


def _start(state: StateDirectory, console: Console) -> Engine:
    data = engine_data()
    console.say(f"  container engine: starting dockerd, images and layers in {data}, socket {RUN / 'docker.sock'}")
    for path in (data, RUN, state.engine):
        path.mkdir(parents=True, exist_ok=True)
    for left in ("docker.pid", "docker.sock"):
        # What an engine left that ended with the machine; a live one would have answered.
        (RUN / left).unlink(missing_ok=True)
    # An interrupted `make down` is finished first; what an engine added that died on its own is nobody's to tell.
    firewall.settle(state.packet_filter)
    before = firewall.Snapshot.take()
    before.write(state.packet_filter)
    log = state.engine / "dockerd.log"
    with console.step("container engine"), log.open("ab") as out:
        child = subprocess.Popen(
            _dockerd(state, data),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PATH": _system_path()},
        )
        started = firewall.identity(child.pid)
        replace(before, engine=started).write(state.packet_filter)
        docker = _docker()
        assert docker is not None, "the package of the engine brings its command line"  # noqa: S101
        engine = Engine(docker, f"unix://{RUN / 'docker.sock'}")
        deadline = time.monotonic() + START_S
        while not _version(engine):
            if child.poll() is not None or time.monotonic() > deadline:
                firewall.mark_ended(state.packet_filter, started)
                stop(state)
                raise EngineError(f"dockerd did not start; its last words:\n{tail(log)}\n  log: {log}")
            time.sleep(0.2)
    return engine


def _dockerd(state: StateDirectory, data: Path) -> list[str]:
    words = [
        "dockerd",
        "--host",
        f"unix://{RUN / 'docker.sock'}",
        "--data-root",
        str(data),
        "--exec-root",
        str(RUN / "exec"),
        "--pidfile",
        str(RUN / "docker.pid"),
        "--bridge",
        "none",
        "--log-opt",
        "max-size=10m",
    ]
    if oci_shim.missing(Path("/proc/self/status").read_text()):
        shim = state.engine / "oci-shim"
        shim.write_text("#!/usr/bin/env -S python3 -ISB\n" + Path(oci_shim.__file__).read_text())
        shim.chmod(0o755)
        words += ["--add-runtime", f"without={shim}", "--default-runtime", "without"]
    return words


def stop(state: StateDirectory) -> bool:
    """Stop our own engine and undo what it changed; whether there was one. The machine's engine is left alone.

    Raises EngineError when it does not end.
    """
    pid_file = RUN / "docker.pid"
    had = pid_file.exists()
    if had and (process := _daemon(int(pid_file.read_text()))):
        firewall.mark_ended(state.packet_filter, firewall.identity(process.pid))
        _end(process)
    had = firewall.settle(state.packet_filter) or had
    if had:
        _unmount(RUN)
        shutil.rmtree(RUN, ignore_errors=True)
    return had


def _unmount(below: Path) -> None:
    """Unmount what the engine mounted there (a network namespace) and did not unmount when it ended."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in reversed([one for one in mounts if Path(one).is_relative_to(below)]):
        subprocess.run(["/usr/bin/umount", place], capture_output=True, check=False)


def _daemon(pid: int) -> psutil.Process | None:
    """Our dockerd, if that is what has this number now: it was started with our own socket."""
    try:
        process = psutil.Process(pid)
        ours = process.name() == "dockerd" and f"unix://{RUN / 'docker.sock'}" in process.cmdline()
    except psutil.NoSuchProcess:
        return None
    return process if ours else None


def _end(dockerd: psutil.Process) -> None:
    """End dockerd and the containerd below it."""
    try:
        family = [dockerd, *dockerd.children(recursive=True)]
        dockerd.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return
    _, alive = psutil.wait_procs(family, timeout=STOP_S)
    if alive:
        raise EngineError(f"dockerd (pid {dockerd.pid}) does not end; look at `docker ps` on {RUN / 'docker.sock'}")


def _docker() -> Path | None:
    # Debian's own client speaks the engine's API version; another one that comes first on PATH may not.
    found = shutil.which("docker", path="/usr/bin") or shutil.which("docker")
    return Path(found) if found else None


def _version(engine: Engine) -> tuple[int, ...] | None:
    try:
        text = subprocess.run(
            engine.command("version", "--format", "{{.Server.Version}}"),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(text.stdout) if text.returncode == 0 else None


def _system_path() -> str:
    """PATH with the folders where daemons lie, which a user's PATH often lacks."""
    return f"/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', os.defpath)}"
