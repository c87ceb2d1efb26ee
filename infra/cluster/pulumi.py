"""The stack, through Pulumi's command line: what a user would type, with the environment of `make env`."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.cluster.state import PROJECT, STACK, StateDirectory
from infra.console import Console
from infra.errors import UserError
from infra.toolchain.command import tail


class PulumiError(UserError):
    """A Pulumi command failed; the message has the end of its output."""


@dataclass(frozen=True)
class Stack:
    """The stack of the cluster that `make up` makes."""

    state: StateDirectory
    checkout: Path
    name: str = STACK

    @property
    def config_file(self) -> Path:
        """Where Pulumi keeps the stack's settings and the salt of its encryption; not in git."""
        return self.checkout / f"Pulumi.{self.name}.yaml"

    def _kept_file(self) -> Path:
        return self.state.root / self.config_file.name

    def run(self, *words: str, log: Path | None = None) -> str:
        """Run a command and return what it printed.

        Raises PulumiError with the end of its output.
        """
        log = log or self.state.root / "pulumi.log"
        with log.open("w") as out:
            ended = subprocess.run(
                [self.state.programs / "pulumi", *words, "--non-interactive", "--cwd", self.checkout],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
                env=self.state.process_environment(),
            )
        if ended.returncode:
            raise PulumiError(f"pulumi {words[0]} ended with {ended.returncode}:\n{tail(log, 40)}\n  log: {log}")
        return log.read_text()

    def exists(self) -> bool:
        """Whether the backend has the stack."""
        return f"{PROJECT}/{self.name}" in self.state.stacks()

    def is_watched(self) -> bool:
        """Whether the stack's settings ask for Prometheus and Alertmanager."""
        path = next((one for one in (self.config_file, self._kept_file()) if one.exists()), None)
        if path is None or not self.exists():
            return False
        return str(_read_setting(path, "monitoring", "enabled")).lower() == "true"

    def select(self, profile: str, *, monitoring: bool = False) -> None:
        """Make the stack if it is not there, give this checkout its settings file, set the profile and the CRDs.

        Campaigns get a login, unless the settings say otherwise: this cluster is there to try things on. With
        `monitoring` Prometheus and Alertmanager too; without it they stay as they are set.
        """
        if not self.exists():
            self.config_file.unlink(missing_ok=True)
            # Another stack may be the one that the user has selected here.
            self.run("stack", "init", self.name, "--secrets-provider", "passphrase", "--no-select")
        else:
            self.adopt_settings()
        self.run("config", "set", "--stack", self.name, "effectively-once:profile", profile)
        crds = ("effectively-once:spark_operator.crds", str(self.state.resource_definitions))
        self.run("config", "set", "--stack", self.name, "--path", *crds)
        if _read_setting(self.config_file, "security", "campaigns") is None:
            self.run("config", "set", "--stack", self.name, "--path", "effectively-once:security.campaigns", "true")
        if monitoring:
            self.run("config", "set", "--stack", self.name, "--path", "effectively-once:monitoring.enabled", "true")
        shutil.copyfile(self.config_file, self._kept_file())

    def adopt_settings(self) -> None:
        """Have the stack's settings file in this checkout, where another one made the stack."""
        if not self.config_file.exists() and self._kept_file().exists():
            # Its salt is needed to read the state.
            shutil.copyfile(self._kept_file(), self.config_file)

    def up(self, console: Console) -> None:
        """Deploy. A second call finds nothing to change; after an interrupted one it goes on."""
        # What a killed `pulumi up` left: a lock, and operations whose end it did not see.
        if any(self.state.backend.glob(f".pulumi/locks/**/{self.name}/*.json")):
            self.run("cancel", "--yes", self.name)
        with console.step("pulumi up", expected_s=120):
            words = ("--yes", "--skip-preview", "--suppress-outputs", "--stack", self.name)
            self.run("up", *words, log=self.state.root / "pulumi-up.log")

    def forget(self) -> None:
        """Drop the state without touching what it describes: the cluster is gone already."""
        if self.exists():
            self.run("stack", "rm", "--force", "--yes", self.name)
        self._drop_settings()

    def erase(self) -> None:
        """Do the same without Pulumi, which may be gone or unable to read the state. Other stacks are left alone."""
        below = self.state.backend / ".pulumi"
        for file in (below / "stacks" / PROJECT).glob(f"{self.name}.json*"):
            file.unlink()
        for folder in ("history", "backups", "locks/organization"):
            shutil.rmtree(below / folder / PROJECT / self.name, ignore_errors=True)
        self._drop_settings()

    def _drop_settings(self) -> None:
        self.config_file.unlink(missing_ok=True)
        self._kept_file().unlink(missing_ok=True)


def _read_setting(path: Path, section: str, name: str) -> object:
    """Return what a settings file says below a section, None where it says nothing."""
    found = yaml.safe_load(path.read_text())
    for key in ("config", f"{PROJECT}:{section}", name):
        found = found.get(key) if isinstance(found, dict) else None
    return found
