"""What the Spark tests share: one toolchain, one stack, one session inside the test process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from effectively_once.driver.session import MANAGER, REQUIRED
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.embedded.object_store import ObjectStore
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import CHECKOUT, Toolchain
from infra.toolchain.prepare import prepare as prepare_toolchain
from tests.spark.attacked import Attacked
from tests.spark.pipeline import Pipeline

BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return prepare_toolchain()


@pytest.fixture(scope="session")
def stack(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStack]:
    """Broker and store of all tests; each test has topics, bucket prefix and pipeline name of its own."""
    with EmbeddedStack(tmp_path_factory.mktemp("stack"), toolchain) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ACCESS_KEY, running.endpoints.s3_access_key)
        patch.setenv(SECRET_KEY, running.endpoints.s3_secret_key)
        yield running


@pytest.fixture(scope="module")
def store(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Start a store of a module's own, which its tests may stop."""
    folder = tmp_path_factory.mktemp("store")
    running = ObjectStore(folder / "data", folder / "store.log", toolchain.minio)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def new_pipeline(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Pipeline]]:
    """Make a pipeline with topics of its own. Its drivers end with this module: an idle one takes a tenth of a core."""
    made: list[Pipeline] = []

    def make(name: str, *, topics: bool = True, **settings: object) -> Pipeline:
        pipeline = Pipeline(toolchain, stack.endpoints, tmp_path_factory.mktemp(name), name, settings)
        made.append(pipeline)
        if topics:
            pipeline.create_topics()
        return pipeline

    yield make
    for pipeline in made:
        pipeline.end()


@pytest.fixture(scope="module")
def attacked(new_pipeline: Callable[..., Pipeline], request: pytest.FixtureRequest) -> Attacked:
    """One pipeline for all points of a module."""
    return Attacked.begun(new_pipeline(f"attacked_{request.module.__name__.rpartition('test_')[2]}"))


@pytest.fixture(scope="package")
def spark(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the modules that need one in this process: a process has one JVM."""
    work: Path = tmp_path_factory.mktemp("session")
    os.environ.setdefault("JAVA_HOME", str(toolchain.java.parent.parent))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.driver.extraClassPath", f"{toolchain.jvm_jar}:{toolchain.spark_jars}/*")
        .config("spark.driver.extraJavaOptions", f"{OPTIONS} -Djava.io.tmpdir={work}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(work))
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.checkpointFileManagerClass", MANAGER)
        .config("spark.plugins", REQUIRED["spark.plugins"])
        .config("spark.sql.adaptive.enabled", "false")
        .config(BATCH, REQUIRED[BATCH])
        .config("spark.executorEnv.PYTHONPATH", f"{CHECKOUT / 'pipelines' / 'src'}:{CHECKOUT}")
        .getOrCreate()
    )
    yield session
    session.stop()
