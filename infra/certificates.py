"""Certificates, made by OpenSSL's command line: an authority of the platform's own, and what it signs.

Keys go from here into Pulumi's state, encrypted, and into Secrets. On this machine they are in a folder that only the
user reads, for as long as one command takes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from infra.errors import UserError

PROGRAM: Final = "openssl"
INSTALL: Final = "install it (apt: openssl)"
AUTHORITY_DAYS: Final = 3650
DAYS: Final = 825
TIMEOUT_S: Final = 30.0
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# Said in full, so that whatever a machine has in its own configuration changes nothing.
_CONFIG: Final = """[req]
distinguished_name = name
prompt = no
string_mask = utf8only
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[signed]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{names}
"""


class CertificateError(UserError):
    """OpenSSL is not there, or refuses; the message has its words, and never a key."""


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, both PEM; the key is PKCS#8."""

    certificate: str
    key: str


def make_authority(name: str) -> Certificate:
    """Return an authority that signs itself. Raises CertificateError."""
    with _folder(name, ()) as folder:
        words = ("-x509", *_KEY, "-days", str(AUTHORITY_DAYS), "-extensions", "authority")
        _openssl("req", *words, "-config", "config", "-keyout", "key", "-out", "crt", folder=folder)
        return _read(folder)


def sign(authority: Certificate, name: str, hosts: Sequence[str] = ()) -> Certificate:
    """Return a certificate of an authority, for a server of these hosts (`*.` is any first part) and for a client.

    Raises CertificateError.
    """
    with _folder(name, hosts) as folder:
        _write(folder / "authority.crt", authority.certificate)
        _write(folder / "authority.key", authority.key)
        _openssl("req", "-new", *_KEY, "-config", "config", "-keyout", "key", "-out", "csr", folder=folder)
        by = ("-CA", "authority.crt", "-CAkey", "authority.key", "-CAcreateserial", "-days", str(DAYS))
        extensions = ("-extfile", "config", "-extensions", "signed")
        _openssl("x509", "-req", "-in", "csr", *by, *extensions, "-out", "crt", folder=folder)
        return _read(folder)


class _folder(tempfile.TemporaryDirectory[str]):  # noqa: N801 - used as a function
    """A folder of mode 0700 with the configuration of one request."""

    def __init__(self, name: str, hosts: Sequence[str]) -> None:
        super().__init__(prefix="effectively-once-")
        names = "subjectAltName = " + ", ".join(map(_format_host, hosts)) if hosts else ""
        _write(Path(self.name) / "config", _CONFIG.format(name=name, names=names))

    def __enter__(self) -> Path:  # type: ignore[override]
        return Path(self.name)


def _format_host(host: str) -> str:
    try:
        return f"IP:{ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _read(folder: Path) -> Certificate:
    return Certificate((folder / "crt").read_text(), (folder / "key").read_text())


def find_openssl() -> str:
    """Return where it is. Raises CertificateError."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise CertificateError(f"{PROGRAM} is not on PATH, and certificates are made with it: {INSTALL}")
    return program


def _openssl(*words: str, folder: Path) -> None:
    program = find_openssl()
    try:
        ended = subprocess.run(
            [program, *words], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CertificateError(f"openssl {words[0]} did not end within {TIMEOUT_S:.0f} s") from error
    if ended.returncode:
        raise CertificateError(f"openssl {words[0]} ended with {ended.returncode}: {ended.stderr.strip()[-300:]}")
