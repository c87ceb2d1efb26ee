"""State of Spark's own (R7): the settings that it depends on, and the checkpoint that alone holds it.

No Spark is imported here: `inspect` asks whether a driver could go on, and runs where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.errors import SettingsError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.store.object_store import S3ObjectStore

PROVIDER, PARTITIONS = "spark.sql.streaming.stateStore.providerClass", "spark.sql.shuffle.partitions"


def settings(shards: int) -> dict[str, str]:
    """What the session of such a pipeline needs, each with the pitfall it closes."""
    return {
        PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A task that was left behind uploads under a name of its own, and a commit names what counts (pitfall 11).
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        # Partitions of the state: bound in head like the shards.
        PARTITIONS: str(shards),
        # Every batch is an epoch, and an epoch has rows.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }


def checkpoint_of(
    store: S3ObjectStore, layout: Layout, head: Head, shards: int
) -> tuple[Checkpoint, Declaration] | None:
    """Return the checkpoint that holds the state, and the epoch that it has to end with; None before the first.

    Raises:
        CheckpointError: it is gone, or does not fit the chain.
        SettingsError: the state began with other settings.

    """
    last = head.last
    if last is None:
        return None
    checkpoint = Checkpoint(store, layout, last.lineage)
    checkpoint.go_on(head)
    refuse_other_settings(checkpoint.read_planned(last.batch_id).conf, shards, checkpoint.folder())
    return checkpoint, last


def refuse_other_settings(kept: Mapping[str, str], shards: int, where: str) -> None:
    """Compare what Spark fixed when the state began with what this version sets: Spark would go on with the former.

    Raises:
        SettingsError: naming the setting and both values.

    """
    for name, value in settings(shards).items():
        if kept.get(name, value) != value:
            raise SettingsError(
                f"{name} was {kept[name]} when the state began and is {value} now",
                where,
                "Start the version that began it, or give the pipeline another name to begin anew.",
            )
