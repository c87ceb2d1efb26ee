"""A real Kafka broker: one KRaft node, broker and controller in one process."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

from confluent_kafka.admin import AdminClient

from infra.embedded.ports import HOST
from infra.embedded.process import Child, ServerError, wait_for
from infra.embedded.server import Server

START_TIMEOUT_S = 60.0  # 2-3 s on an idle machine; a loaded one has been seen ten times slower
FORMAT_TIMEOUT_S = 60.0

# A small broker that is up soon: serial collector, first-tier compiler only (1.5 s to its first answer, not 2.0 s).
JVM_FLAGS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

CLASSES = "broker.jsa"
"""In a folder of shared class data (infra.embedded.class_archive): with it a broker is up in 1.3 s, not 2.5 s."""

# For measurements: both compilers, and the collector that Java chooses by itself.
LASTING_JVM_FLAGS = ("-Xms1g", "-Xmx1g", "-XX:-UsePerfData", "-Djava.awt.headless=true")

# How long the controller takes a killed broker for alive. A restarted one is refused until then, with the default
# of 9 s after every SIGKILL; much less than this and a starved machine fences a healthy broker.
SESSION_TIMEOUT_MS = 4000


def properties(
    port: int, controller_port: int, data: Path, link: tuple[int, int] | None = None, *, kept: bool = False
) -> str:
    """Write the broker's `server.properties`; a pure function.

    `link` adds a listener on its first port that sends clients to its second, where something stands in between.
    `kept` is for data that outlive a run.
    """
    listeners = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners + (f",LINK://{HOST}:{link[0]}" if link else ""),
        "advertised.listeners": listeners + (f",LINK://{HOST}:{link[1]}" if link else ""),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT",
        "log.dirs": str(data),
        "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "broker.heartbeat.interval.ms": str(SESSION_TIMEOUT_MS // 8),
        # A mistyped topic is an error, not a new topic.
        "auto.create.topics.enable": "false",
        # One node: every internal topic has one copy, and few partitions, each of which costs time at start.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Time goes on while the run is stopped: by Kafka's default a week later the input that no epoch has read would
        # be deleted at the next start, before a driver could read it.
        **({"log.retention.ms": "-1"} if kept else {}),
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


class KafkaBroker(Server):
    """A broker with its data in `work`, log in `log`. After a kill a restart takes SESSION_TIMEOUT_MS longer."""

    name = "Kafka broker"

    def __init__(
        self,
        work: Path,
        log: Path,
        java: Path,
        class_path: Path,
        *,
        link: int | None = None,
        long_lived: bool = False,
        class_archive: Path | None = None,
        dump_to: Path | None = None,
        kept: Path | None = None,
    ) -> None:
        """`class_path` is a directory of jars; nothing is started yet. `long_lived` is for throughput.

        `class_archive` is a folder of shared class data, `dump_to` one that the broker writes its own to when it ends.

        `link` is the port of something in front of the broker (a test's faulty link): there is a second listener then,
        at `link_port`, which sends its clients to `link`.

        `kept` is a folder for data that outlive it: what is there is gone on with, on whichever ports are free.
        """
        super().__init__(log)
        self._work = work
        self._java = java
        self._class_path = class_path
        self._link = link
        shared = () if class_archive is None else (f"-XX:SharedArchiveFile={class_archive / CLASSES}",)
        self._flags = (*(LASTING_JVM_FLAGS if long_lived else JVM_FLAGS), *shared)
        self._dump = () if dump_to is None else (f"-XX:ArchiveClassesAtExit={dump_to / CLASSES}",)
        self._kept = kept
        self._port = 0
        self.link_port = 0

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients; the same after a restart."""
        return f"{HOST}:{self._port}"

    def start(self) -> None:
        """Format the data directory where it is new, start, and return when it answers.

        Raises ServerError with the broker's last log lines. A port that somebody took meanwhile is replaced.
        """
        self._start_on(3, self._configure)

    def _properties(self, controller_port: int, data: Path, link: tuple[int, int] | None) -> str:
        return properties(self._port, controller_port, data, link, kept=self._kept is not None)

    def _login(self) -> dict[str, object]:
        """Where it is looked whether the broker answers, and as whom."""
        return {"bootstrap.servers": self.bootstrap}

    def _java_command(self, main: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        # Libraries that it unpacks stay behind when it is killed: here they go with its data.
        scratch = f"-Djava.io.tmpdir={self._work.absolute()}"
        return [str(self._java), *self._flags, *flags, scratch, "-cp", f"{self._class_path}/*", main, *arguments]

    def _configure(self, ports: list[int], attempt: int) -> None:
        self._port, self.link_port, controller_port = ports
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._work.mkdir(parents=True, exist_ok=True)
        if self._kept is None:
            self._format(self._work / f"data-{attempt}", controller_port)
            return
        if not self._kept.is_dir():
            # It gets its name when it is complete: one that was interrupted would be taken for a broker's.
            made = self._kept.with_name(f"{self._kept.name}-made")
            shutil.rmtree(made, ignore_errors=True)
            made.parent.mkdir(parents=True, exist_ok=True)
            self._format(made, controller_port)
            made.rename(self._kept)
        # The port of the one voter is in its data. It writes that anew when it takes office on another one.
        self._write_properties(self._kept, controller_port)

    def _write_properties(self, data: Path, controller_port: int) -> None:
        link = None if self._link is None else (self.link_port, self._link)
        self._config.write_text(self._properties(controller_port, data, link))

    def _format(self, data: Path, controller_port: int) -> None:
        self._write_properties(data, controller_port)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # A name that begins with a dash would be read as an option.
        cluster = "E" + cluster[1:]
        command = self._java_command("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster)
        try:
            answer = subprocess.run(
                [*command, "-c", str(self._config)],
                capture_output=True,
                text=True,
                timeout=FORMAT_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerError(f"Kafka broker: formatting {data}: {error}") from error
        if answer.returncode != 0:
            raise ServerError(f"Kafka broker: formatting {data} failed:\n{answer.stdout}{answer.stderr}".rstrip())

    @property
    def _config(self) -> Path:
        return self._work / "server.properties"

    def _launch(self) -> None:
        command = self._java_command("kafka.Kafka", str(self._config), flags=self._dump)
        child = Child("Kafka broker", command, self._log, cwd=self._work)
        self._child = child
        # Reconnects quickly: the default back-off would cost more than the start itself.
        client = AdminClient(
            {
                **self._login(),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        wait_for(f"Kafka broker at {self.bootstrap}", START_TIMEOUT_S, lambda: _answers(client), child)


def _answers(client: AdminClient) -> bool:
    """Whether the node describes its cluster and is itself in it, unfenced."""
    cluster = client.describe_cluster(request_timeout=2).result(timeout=3)
    return len(cluster.nodes) == 1 and cluster.controller is not None
