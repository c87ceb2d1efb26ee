"""Who asks a pipeline on this machine, while it runs, how complete its results are."""

from __future__ import annotations

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import BucketAddress
from infra.embedded.stack import Endpoints
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.driver_metrics import read_metric
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.definition.packaged import PIPELINE, TOPIC
from tests.harness.inquiry import Complete, Inquiry, Tail
from tests.harness.run_directory import RunDirectory

LOOK_PATIENCE_S = 5.0
"""A store that does not answer within so long is asked again when it is time for the next window."""


def inquiry_of(
    directory: RunDirectory,
    endpoints: Endpoints,
    settings: PipelineSettings,
    drivers: SupervisedDrivers,
    packages: str,
) -> Inquiry:
    """Who asks the pipeline of a run.

    Args:
        directory: of the run.
        endpoints: of its stack.
        settings: of its pipeline.
        drivers: whose metrics are read.
        packages: where Python finds the library's command and the harness.
    """
    chain = ChainReader(BucketAddress(endpoints.s3_endpoint, settings.s3_bucket), PIPELINE, TOPIC, LOOK_PATIENCE_S)

    def tail() -> Tail:
        head = chain.head()
        return [] if head is None else head.content["tail"]

    whole = directory.path.absolute()
    return Inquiry(
        directory.path,
        tail,
        Complete(whole / "settings.json", packages, whole / "work" / "complete.log"),
        lambda: read_metric(drivers.driver),
        (settings.window_ms, settings.lateness_ms),
    )
