"""How to reach what was deployed: the stack's output, the cluster's API, and addresses with their credentials."""

from __future__ import annotations

import base64
import binascii
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from infra.cluster.api import Api, ApiError, Reader
from infra.cluster.platform import (
    AccessError,
    NoStackError,
    PassphraseError,
    Platform,
    Store,
    assume_platform,
    parse_platform,
)
from infra.embedded.stack import Endpoints

BUCKET = "effectively-once"
PULUMI_S = 60.0
CHECKOUT = Path(__file__).resolve().parents[2]
ACCESS_KEYS = ("AWS_ACCESS_KEY_ID", "rootUser", "MINIO_ROOT_USER")
SECRET_KEYS = ("AWS_SECRET_ACCESS_KEY", "rootPassword", "MINIO_ROOT_PASSWORD")


@dataclass(frozen=True)
class Access:
    """A deployed stack and the cluster it is on."""

    kubeconfig: Path
    context: str | None
    """None: the current context of the kubeconfig."""
    platform: Platform
    environment: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Of child processes: kubectl and pulumi."""
    stack: str | None = None
    checkout: Path = CHECKOUT

    @cached_property
    def api(self) -> Reader:
        """The cluster's API. Raises UnreachableError when there is no such context."""
        return Api(self.kubeconfig, self.context)

    def endpoints(self, pipeline: str | None = None) -> Endpoints:
        """Addresses outside the cluster, with credentials.

        The bucket is that of `pipeline`, or the one that all pipelines share, else `effectively-once`.

        Raises:
            AccessError: there is no access from outside, no such pipeline, or no credentials in the Secret.
            ApiError, UnreachableError: the Secret cannot be read.
        """
        kafka, store = self.platform.kafka.external_bootstrap, self.platform.object_store
        missing = [name for name, there in (("kafka", kafka), ("object_store", store.external_endpoint)) if not there]
        if missing or kafka is None or store.external_endpoint is None:
            raise AccessError(
                f"{' and '.join(missing)} cannot be reached from outside the cluster: "
                "set external_access.<name>.by in the stack's settings and run `make up`"
            )
        access_key, secret_key = self._credentials(store)
        return Endpoints(kafka, store.external_endpoint, access_key, secret_key, self._bucket(pipeline))

    def _bucket(self, pipeline: str | None) -> str:
        pipelines = self.platform.pipelines
        if pipeline is not None and pipeline not in pipelines:
            there = ", ".join(sorted(pipelines)) or "none"
            raise AccessError(f"there is no pipeline {pipeline!r} in the stack; there is: {there}")
        asked = [pipelines[pipeline]] if pipeline is not None else list(pipelines.values())
        named = {str(one.settings["s3_bucket"]) for one in asked if "s3_bucket" in one.settings}
        return named.pop() if len(named) == 1 else BUCKET

    def _credentials(self, store: Store) -> tuple[str, str]:
        if not store.secret:
            raise AccessError("stack output platform.object_store.secret is empty: run `make up` again")
        namespace = store.secret_namespace or self.platform.namespaces.platform
        data = self._data(namespace, store.secret)
        pair = [next((data[key] for key in keys if data.get(key)), None) for keys in (ACCESS_KEYS, SECRET_KEYS)]
        if None in pair:
            raise AccessError(
                f"Secret {namespace}/{store.secret} holds {', '.join(sorted(data)) or 'nothing'}; "
                f"needed are {ACCESS_KEYS[0]} and {SECRET_KEYS[0]}"
            )
        access_key, secret_key = (_decode(str(one), f"{namespace}/{store.secret}") for one in pair)
        return access_key, secret_key

    def read_secret(self, namespace: str, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Return what a Secret holds below these keys.

        Raises:
            AccessError: it is not there, or lacks one; the message has no value.
            ApiError, UnreachableError: it cannot be read.
        """
        data = self._data(namespace, name)
        if lacking := sorted({*keys} - {*data}):
            raise AccessError(f"Secret {namespace}/{name} lacks {', '.join(lacking)}: run `make up` again")
        return {key: _decode(str(data[key]), f"{namespace}/{name}") for key in keys}

    def _data(self, namespace: str, name: str) -> Mapping[str, str]:
        try:
            found = self.api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            raise AccessError(
                f"Secret {namespace}/{name} is not there, deleted by hand? `pulumi up --refresh` makes it again"
            ) from error
        return found.get("data") or {}

    def pulumi(self, *words: str) -> str:
        """Run one command of Pulumi on this stack and return what it prints. Raises AccessError."""
        return run_pulumi(words, self.environment, self.stack, self.checkout)


def _decode(text: str, secret: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        # The cause would show the value.
        raise AccessError(f"Secret {secret} is not base64 of text") from None


def load_access(
    state_env: Mapping[str, str],
    state: Path,
    *,
    stack: str | None = None,
    context: str | None = None,
    checkout: Path = CHECKOUT,
    assume: bool = False,
) -> Access:
    """Find the deployed stack.

    Args:
        state_env: what `make env` prints; added to this process's environment, PATH in front.
        state: the state directory; its kubeconfig is taken when the environment names none.
        stack: else PULUMI_STACK, else the one that is selected in the checkout.
        context: else the current one of the kubeconfig.
        checkout: where Pulumi.yaml lies.
        assume: where the stack cannot be read (an update that failed) but a kubeconfig is there, take what a stack of
            our defaults would say; for commands that look for what went wrong.

    Raises:
        NoStackError, PassphraseError, AccessError: each says what to do.
    """
    environment = {**os.environ, **state_env}
    own, outer = state_env.get("PATH", ""), os.environ.get("PATH", os.defpath)
    environment["PATH"] = own if own.endswith(outer) else os.pathsep.join(one for one in (own, outer) if one)
    stack = stack or environment.get("PULUMI_STACK")
    kubeconfig = Path(environment.get("KUBECONFIG") or state / "kubeconfig")
    try:
        platform = parse_platform(run_pulumi(("stack", "output", "--json"), environment, stack, checkout))
    except AccessError:
        if not (assume and kubeconfig.is_file()):
            raise
        platform = assume_platform()
    return Access(kubeconfig, context, platform, environment, stack, checkout)


def run_pulumi(words: tuple[str, ...], environment: Mapping[str, str], stack: str | None, checkout: Path) -> str:
    """Run Pulumi without questions and return its output. Raises AccessError."""
    argv = ["pulumi", *words, *(["--stack", stack] if stack else []), "--cwd", str(checkout), "--non-interactive"]
    try:
        ended = subprocess.run(
            argv,
            env={**environment, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PULUMI_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise AccessError("there is no `pulumi` on PATH: run `make up`") from error
    except subprocess.TimeoutExpired as error:
        raise AccessError(
            f"`{' '.join(argv[:3])}` did not end within {PULUMI_S:.0f} s; does its backend answer?"
        ) from error
    if ended.returncode != 0:
        raise explain(ended.stderr + ended.stdout, environment)
    return ended.stdout


def explain(output: str, environment: Mapping[str, str]) -> AccessError:
    """Name what went wrong from what Pulumi printed; a pure function."""
    text = " ".join(output.split())
    low = text.lower()
    file = environment.get("PULUMI_CONFIG_PASSPHRASE_FILE")
    if "passphrase" in low:
        where = f" ({file})" if file else ""
        if "incorrect passphrase" in low:
            return PassphraseError(
                f"the passphrase{where} is not the one that the stack's state was encrypted with: put the right one "
                "back from your backup, or give up that state: `make down FORGET=1`"
            )
        return PassphraseError(
            f"the passphrase of the stack's state{where} is lost: put it back from your backup, or give up that state: "
            "`make down FORGET=1`"
        )
    if "no stack named" in low or "no stack selected" in low:
        return NoStackError("nothing is deployed yet: run `make up`")
    backend = environment.get("PULUMI_BACKEND_URL", "")
    if "no such file or directory" in low and backend.startswith("file://") and backend[7:] in text:
        return NoStackError(f"nothing is deployed yet (there is no {backend[7:]}): run `make up`")
    if "pulumi_access_token" in low or "pulumi login" in low:
        return AccessError("no backend of Pulumi is chosen: `eval $(make env)` chooses ours")
    return AccessError(f"Pulumi cannot read the stack: {text[:500] or 'it said nothing'}")
