"""An object store of several servers on this machine, each with a drive of its own."""

from __future__ import annotations

from pathlib import Path

import urllib3

from infra.embedded.ports import HOST, free_ports
from infra.embedded.process import Child
from infra.toolchain.prepare import prepare

ANSWER_S = 5.0


class Drives:
    """Servers that find each other on the loopback; data, logs and certificates are in `folder`.

    Args:
        folder: of this store alone.
        count: how many servers; none is started yet.
        keys: the root's login, as MinIO's environment has it.
        authority: believed by who asks after their health; with one they speak TLS.

    """

    def __init__(
        self, folder: Path, count: int, keys: dict[str, str] | None = None, authority: Path | None = None
    ) -> None:
        self.folder, self.authority, self.servers = folder, authority, dict[int, Child]()
        self._keys, self._binary = keys or {}, prepare().minio
        self.urls = [f"{'https' if authority else 'http'}://{HOST}:{port}" for port in free_ports(count)]

    def start(self, number: int, certificates: str = "certs") -> None:
        """Start a server with the certificates of a folder; it knows the others by their addresses."""
        address = self.urls[number].rpartition("/")[2]
        drives = [f"{url}{self.folder / f'drive-{each}'}" for each, url in enumerate(self.urls)]
        environment = {
            "HOME": str(self.folder),
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            # A drive may be a folder of the root's file system.
            "MINIO_CI_CD": "on",
            # In a container it would not take an address of loopback for its own.
            "_MINIO_SERVER_LOCAL": address,
            **self._keys,
        }
        certs = str(self.folder / certificates)
        words = [str(self._binary), "server", "--quiet", "--certs-dir", certs, "--address", address, *drives]
        log = self.folder / f"server-{number}.log"
        self.servers[number] = Child(f"server {number}", words, log, cwd=self.folder, env=environment)

    def is_healthy(self, number: int, health: str) -> bool:
        """Whether a server says `live`, or that the store can be written (`cluster`). Raises what urllib3 does."""
        believed = None if self.authority is None else str(self.authority)
        with urllib3.PoolManager(retries=False, timeout=ANSWER_S, ca_certs=believed) as http:
            return http.request("GET", f"{self.urls[number]}/minio/health/{health}").status == 200

    def kill(self, number: int) -> None:
        """SIGKILL a server, and wait for its end."""
        self.servers.pop(number).kill()

    def kill_all(self) -> None:
        """SIGKILL all that run."""
        for number in [*self.servers]:
            self.kill(number)
