"""A pipeline's driver as a process, with executors in JVMs of their own (`local-cluster`): each can be killed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from infra.embedded.process import Child, descendants
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import Toolchain
from infra.toolchain.spark_home import EXECUTORS as EXECUTORS_FOLDER

EXECUTORS = 2
EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"

# A demo's JVMs live for a minute or two: quick start and small memory count for more than peak speed.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData"
# Epochs of some 20,000 rows: compiling a plan takes longer than interpreting it.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
CLASSES = "spark.jsa"
"""In a folder of shared class data."""

# For measurements: both compilers, and the collector that Java chooses by itself.
LASTING_JVM_OPTIONS = "-XX:-UsePerfData"


@dataclass(frozen=True)
class SparkHome:
    """What every driver of a run shares.

    Attributes:
        toolchain: jars, wheel and Java.
        endpoints: the stack it talks to.
        run_dir: logs go to `logs/`, scratch files to `work/`.
        class_archive: folder of shared class data (infra.embedded.class_archive); without, JVMs start slower.
        master: where Spark runs; by default executors in JVMs of their own.
        dump_to: folder that the driver's JVM writes its class data to when it ends.
        memory_mib: heap of driver and of each executor.
        executors: how many.
        cores: of each executor.
        long_lived: JVMs and plans for throughput; otherwise they are soon up, and slower after a minute.
        conf: settings of Spark beside those made here, or instead of them.
    """

    toolchain: Toolchain
    endpoints: Endpoints
    run_dir: Path
    class_archive: Path | None = None
    master: str | None = None
    dump_to: Path | None = None
    memory_mib: int = 768
    executors: int = EXECUTORS
    cores: int = 1
    long_lived: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)

    def start(self, name: str, module: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Child:
        """Start `python -m module arguments...` with the packaged wheel; its log is `logs/<name>.log`."""
        work = self.run_dir.absolute() / "work" / "spark" / name
        work.mkdir(parents=True, exist_ok=True)
        logs = self.run_dir.absolute() / "logs" / f"{name}-executors"
        logs.mkdir(parents=True, exist_ok=True)
        (work / EXECUTORS_FOLDER).symlink_to(logs)
        # What programs unpack for themselves stays behind when they are killed: here it goes with the run.
        scratch = self.run_dir.absolute() / "work" / "tmp"
        scratch.mkdir(exist_ok=True)
        jars = f"{self.toolchain.jvm_jar}:{self.toolchain.spark_jars}/*"
        conf = {
            "spark.master": self.master or f"local-cluster[{self.executors},{self.cores},{self.memory_mib}]",
            "spark.executor.memory": f"{self.memory_mib}m",
            "spark.driver.memory": f"{self.memory_mib}m",
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.driver.extraJavaOptions": self._jvm_options(scratch) + self._dump_option(),
            "spark.executor.extraJavaOptions": self._jvm_options(scratch),
            **({} if self.long_lived else INTERPRETED),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            **self.conf,
        }
        whole = {
            "EFFECTIVELY_ONCE_SPARK_CONF": json.dumps(conf),
            "EFFECTIVELY_ONCE_WHEEL_DIGEST": self.toolchain.wheel.sha256,
            **self.endpoints.credentials,
            "PYTHONPATH": str(self.toolchain.wheel.installed),
            # Workers start again and again: what they import is compiled once, whatever the caller's shell says.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "JAVA_HOME": str(self.toolchain.java.parent.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(work),
            "TMPDIR": str(scratch),
            "SPARK_HOME": str(self.toolchain.spark_home),
            "PYTHONUNBUFFERED": "1",
            **(env or {}),
        }
        log = self.run_dir / "logs" / f"{name}.log"
        return Child(name, [sys.executable, "-m", module, *arguments], log, cwd=work, env=whole)

    def _jvm_options(self, scratch: Path) -> str:
        unpacked = f'-Djava.io.tmpdir="{scratch}"'
        if self.long_lived:
            return f"{LASTING_JVM_OPTIONS} {unpacked}"
        archive = f" -XX:SharedArchiveFile={self.class_archive / CLASSES}" if self.class_archive else ""
        return f"{JVM_OPTIONS} {unpacked}{archive}"

    def _dump_option(self) -> str:
        return f" -XX:ArchiveClassesAtExit={self.dump_to / CLASSES}" if self.dump_to else ""


def executors(driver_pid: int) -> list[psutil.Process]:
    """Return the executor JVMs of a driver that are alive, oldest first."""
    found = [process for process in descendants(driver_pid) if _is_executor(process)]
    return sorted(found, key=psutil.Process.create_time)


def executor_of(worker_pid: int) -> psutil.Process | None:
    """Return the executor JVM that a Python worker belongs to, None when worker or executor are gone."""
    try:
        return next((parent for parent in psutil.Process(worker_pid).parents() if _is_executor(parent)), None)
    except psutil.NoSuchProcess:
        return None


def _is_executor(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and any(EXECUTOR_CLASS in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False
