"""Everything a run needs, found or built, as one frozen value."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from infra.console import Console, Durations
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from infra.toolchain.jvm import build_jvm_jar
from infra.toolchain.minio import build_minio
from infra.toolchain.spark_home import spark_home
from infra.toolchain.wheel import Wheel, build_wheel

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Toolchain:
    """Where everything is. Paths are absolute and stay valid as long as the cache is not deleted."""

    minio: Path
    """The object store's binary."""
    kafka_classpath: Path
    """A directory with the broker's jars."""
    spark_jars: Path
    """A directory with the jars Spark needs beyond pyspark's own."""
    jvm_jar: Path
    """Our Java classes."""
    wheel: Wheel
    """The packaged pipelines."""
    java: Path
    """The `java` to run them with."""
    spark_home: Path
    """Spark's home: pyspark's files, executors' folders elsewhere."""


def default_console(root: Path | None = None) -> Console:
    """Make a console on standard error that remembers durations in the artefact cache."""
    return Console(Durations((root or cache_root()) / "durations.json"))


def prepare(console: Console | None = None, root: Path | None = None, checkout: Path = CHECKOUT) -> Toolchain:
    """Find or build all of it; what is independent is done side by side. A second call takes milliseconds.

    Raises ToolchainError for the first thing that fails.
    """
    root = root or cache_root()
    console = console or default_console(root)
    cache = Cache(root, lambda name: console.say(f"… {name}: another process is building it; waiting"))
    pipelines = checkout / "pipelines"
    jdk = find_jdk()

    def java_side() -> tuple[Path, Path, Path]:
        with console.step("broker jars (Maven)", expected_s=25):
            kafka = resolve_jars(cache, "kafka")
        with console.step("Spark jars (Maven)", expected_s=15):
            spark = resolve_jars(cache, "spark")
        with console.step("Java classes"):
            return kafka, spark, build_jvm_jar(cache, jdk, [spark], pipelines / "jvm" / "src")

    def go_side() -> Path:
        with console.step("object store (Go build)", expected_s=240):
            return build_minio(cache)

    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="prepare") as pool:
        go = pool.submit(go_side)
        java = pool.submit(java_side)
        with console.step("pipelines wheel"):
            wheel = build_wheel(cache, pipelines)
        kafka, spark, jvm_jar = java.result()
        return Toolchain(go.result(), kafka, spark, jvm_jar, wheel, jdk.java, spark_home(cache))
