"""Bad input and bad surroundings: each ends the real job process with its exit code and one line of what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import NewTopic

from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.objects import Delete, Found, Get, body_of, run
from effectively_once.pipeline.settings import PipelineSettings, digest
from infra.embedded.ports import free_ports
from infra.embedded.process import wait_for
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import ADMIN_S, PARTITIONS, SHARDS, Pipeline
from tests.spark.records import good, mixture

pytestmark = pytest.mark.spark

ENDED_S = 40.0
NAMED = re.compile(r"^(\w+Error): (.+) \((.+?)\)\. (\S.+)$")
SETTINGS, SOURCE, STORE, UNREACHABLE, CHECKPOINT, CHAIN, SINK, ACCESS, VERSION = 64, 65, 67, 69, 74, 76, 76, 77, 78
PATIENCE_S = 2
VARIABLES = [pytest.param("AWS_ACCESS_KEY_ID", marks=pytest.mark.slow), "AWS_SECRET_ACCESS_KEY"]


def refusal(
    pipeline: Pipeline,
    changes: dict[str, object] | None = None,
    settings: Path | None = None,
    env: dict[str, str] | None = None,
) -> tuple[int | None, str]:
    """Start the job, wait for its end, and return exit code and the one line it said (asserting that it is one)."""
    driver = pipeline.start(
        settings or pipeline.write_settings({"start_patience_s": PATIENCE_S, **(changes or {})}), env
    )
    wait_for(f"{pipeline.name} to refuse the start", ENDED_S, lambda: not driver.running())
    said = driver.log.read_text().rstrip("\n").split("\n")
    assert len(said) == 1, f"more than one line: {said}"
    assert NAMED.match(said[0]), said
    return driver.status(), said[0]


@pytest.fixture(scope="module")
def idle(new_pipeline: Callable[..., Pipeline]) -> Pipeline:
    """Make a pipeline with all its topics that never ran; nothing below may leave a trace of it on the store."""
    return new_pipeline("idle")


@pytest.fixture(scope="module")
def stopped(new_pipeline: Callable[..., Pipeline]) -> Pipeline:
    """Run a pipeline for some epochs and stop it in order; each test leaves it as it was."""
    pipeline = new_pipeline("stopped", epoch_rows_max=300)
    pipeline.send(mixture(1, 600))
    driver = pipeline.start()
    pipeline.wait_processed(driver)
    driver.stop(30)
    assert driver.status() == 0, driver.post_mortem()
    return pipeline


# Every wrong setting is tried in tests/unit/library/test_settings.py too; here that the process says so, and with which
# code. Those of which a neighbour shows the same are left to `make test-all`: each is a process of its own.
WRONG_SETTINGS = [
    ("unknown", {"shard_count": 2}, ["shard_count", "Extra inputs are not permitted", "Fields are pipeline, topic"]),
    ("own output as input", {"topic": "idle.accepted"}, ["'idle.accepted'", "would read what it writes"]),
]
MORE_WRONG_SETTINGS = [
    ("type", {"shards": "two"}, ["shards", "valid integer", "'two'"]),
    ("truth value", {"shards": True}, ["shards", "valid integer", "True"]),
    ("range", {"shards": 0}, ["shards", "greater than or equal to 1", "got 0"]),
    ("negative lateness", {"lateness_ms": -1}, ["lateness_ms", "greater than or equal to 0", "-1"]),
    ("name", {"pipeline": "No Name"}, ["pipeline", "match pattern", "'No Name'"]),
    ("address", {"kafka_bootstrap": "no port"}, ["kafka_bootstrap", "'no port'"]),
    ("endpoint", {"s3_endpoint": "localhost:9000"}, ["s3_endpoint", "'localhost:9000'"]),
]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        *(pytest.param(*case[1:], id=case[0]) for case in WRONG_SETTINGS),
        *(pytest.param(*case[1:], id=case[0], marks=pytest.mark.slow) for case in MORE_WRONG_SETTINGS),
    ],
)
def test_a_wrong_setting_is_refused_with_field_value_and_what_is_allowed(
    idle: Pipeline, changes: dict[str, object], says: list[str]
) -> None:
    code, line = refusal(idle, settings=idle.write_settings(changes))
    assert code == SETTINGS
    assert line.startswith("SettingsError: ")
    assert [words for words in [*says, "settings-"] if words not in line] == []


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        *(pytest.param(one, marks=pytest.mark.slow) for one in (b"", b"{", b"[]", b"{}", b'{"pipeline": NaN}')),
    ],
)
def test_a_settings_file_that_holds_no_settings_is_refused(idle: Pipeline, content: bytes) -> None:
    file = idle.write_settings(content=content)
    code, line = refusal(idle, settings=file)
    assert code == SETTINGS
    assert line.startswith("SettingsError: ")
    assert str(file) in line


@pytest.mark.parametrize("kind", ["missing", pytest.param("folder", marks=pytest.mark.slow)])
def test_a_settings_file_that_cannot_be_read_is_refused(idle: Pipeline, kind: str) -> None:
    file = idle.folder / "nowhere.json" if kind == "missing" else idle.folder
    code, line = refusal(idle, settings=file)
    assert code == SETTINGS
    assert f"settings cannot be read: {'No such file' if kind == 'missing' else 'Is a directory'}" in line
    assert str(file) in line


def test_a_broker_that_cannot_be_reached_is_named_with_its_address(idle: Pipeline) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    code, line = refusal(idle, {"kafka_bootstrap": address})
    assert code == UNREACHABLE
    assert line.startswith("UnreachableError: the Kafka broker does not answer")
    assert address in line


def test_a_store_that_cannot_be_reached_is_named_with_its_address(idle: Pipeline) -> None:
    endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
    code, line = refusal(idle, {"s3_endpoint": endpoint})
    assert code == UNREACHABLE
    assert line.startswith("UnreachableError: the object store does not answer")
    assert f"({endpoint})" in line


@pytest.mark.parametrize("variable", VARIABLES)
def test_wrong_credentials_are_refused_without_showing_them(idle: Pipeline, variable: str) -> None:
    code, line = refusal(idle, env={variable: "notthekey"})
    assert code == ACCESS
    assert line.startswith("AccessError: the object store refuses the credentials")
    assert "Correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY." in line
    assert "notthekey" not in line
    assert idle.endpoints.s3_secret_key not in line


@pytest.mark.parametrize("variable", VARIABLES)
def test_missing_credentials_are_named_by_their_variable(idle: Pipeline, variable: str) -> None:
    code, line = refusal(idle, env={variable: ""})
    assert code == SETTINGS
    assert f"credentials of the object store are missing (environment variable {variable})" in line


def test_a_bucket_that_does_not_exist_is_named(idle: Pipeline) -> None:
    code, line = refusal(idle, {"s3_bucket": "no-such-bucket"})
    assert code == ACCESS
    assert "AccessError: the bucket does not exist" in line
    assert "no-such-bucket" in line


def test_an_input_topic_that_does_not_exist_is_named(idle: Pipeline) -> None:
    code, line = refusal(idle, {"topic": "nowhere"})
    assert (code, line) == (SOURCE, "SourceError: the input topic does not exist (topic nowhere). Create it first.")


def test_a_compacted_input_topic_is_refused(idle: Pipeline) -> None:
    topic = NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})
    idle.admin.create_topics([topic])["compacted"].result(ADMIN_S)
    code, line = refusal(idle, {"topic": "compacted"})
    assert code == SOURCE
    assert "the topic is compacted" in line


@pytest.mark.parametrize(
    "missing", [pytest.param("accepted", marks=pytest.mark.slow), "dead_letter", "user_counts.progress"]
)
def test_a_missing_topic_of_a_sink_is_named_with_how_to_create_it(
    new_pipeline: Callable[..., Pipeline], missing: str
) -> None:
    pipeline = new_pipeline(f"lacks_{missing.replace('.', '_')}")
    pipeline.delete(f"{pipeline.name}.{missing}")
    code, line = refusal(pipeline)
    assert code == SINK
    assert f"SinkError: a topic of a sink does not exist (topic {pipeline.name}.{missing})" in line
    assert f"Create it with {SHARDS} partitions" in line


def test_too_few_partitions_for_the_shards_are_counted(idle: Pipeline) -> None:
    code, line = refusal(idle, {"shards": 3})
    assert code == SINK
    assert "SinkError: a topic of a sink has 2 partitions, 3 shards need one each (topic idle.accepted)" in line


def test_a_refused_start_of_a_new_pipeline_leaves_nothing_behind(idle: Pipeline) -> None:
    refusal(idle, {"topic": "nowhere"})
    assert list(idle.store.names("idle/")) == []


CHANGED = [
    ("window_ms", 30_000),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (("lateness_ms", 1), ("topic", "events.idle"))),
]


@pytest.mark.parametrize(("field", "value"), CHANGED)
def test_a_setting_that_state_depends_on_cannot_change_between_runs(
    stopped: Pipeline, idle: Pipeline, field: str, value: object
) -> None:
    kept = {"window_ms": 60_000, "lateness_ms": 120_000, "shards": SHARDS, "topic": stopped.topic}
    code, line = refusal(stopped, {field: value})
    assert code == SETTINGS
    assert f"SettingsError: {field} was {kept[field]!r} when this pipeline began and is {value!r} now" in line
    assert f"Set {field} back to {kept[field]!r}" in line


def _declared(pipeline: Pipeline, **changes: object) -> Declaration:
    """Declare epoch 0 of a new pipeline by the protocol's own steps, as a driver that then dies."""
    settings = PipelineSettings.model_validate(pipeline.settings)
    bound = digest(settings.bound)
    described = pipeline.admin.describe_topics(TopicCollection([pipeline.topic]))[pipeline.topic].result(ADMIN_S)
    pinned = {
        "epoch": 0,
        "lineage": "000001-dead",
        "batch_id": 0,
        "topic_ids": {pipeline.topic: str(described.topic_id)},
        "ranges": {pipeline.topic: {str(p): (0, 1) for p in range(PARTITIONS)}},
        "watermark_ms": None,
        "previous_watermark_ms": None,
        "shards": SHARDS,
        "wheel_digest": "w" * 64,
        "settings_digest": bound,
    }
    declaration = Declaration.model_validate({**pinned, **changes})
    held = run(chain.take_over(pipeline.layout, "dead", settings.bound), pipeline.store)
    run(chain.declare(pipeline.layout, held, declaration, None, 0), pipeline.store)
    return declaration


def test_another_version_does_not_finish_a_declared_epoch(new_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = new_pipeline("other_wheel")
    pipeline.send([good(f"i{p}", "u", 1_750_000_000_000, p) for p in range(PARTITIONS)])
    declared = _declared(pipeline)
    code, line = refusal(pipeline)
    assert code == VERSION
    assert line.startswith(f"VersionError: epoch 0 was declared by wheel {'w' * 12}, this is wheel ")
    assert pipeline.head().declared == declared


def test_an_input_topic_that_was_deleted_and_recreated_is_refused_with_both_ids(
    new_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = new_pipeline("recreated")
    pipeline.send([good(f"i{p}", "u", 1_750_000_000_000, p) for p in range(PARTITIONS)])
    declared = _declared(pipeline)
    pipeline.recreate(pipeline.topic, PARTITIONS)
    code, line = refusal(pipeline)
    assert code == SOURCE
    assert "SourceError: the topic was deleted and created again: its id was" in line
    assert declared.topic_ids[pipeline.topic] in line
    assert f"(topic {pipeline.topic})" in line
    assert pipeline.head().declared == declared


def test_a_progress_topic_that_was_recreated_is_refused_until_marks_and_chain_are_restored(stopped: Pipeline) -> None:
    sink = "dead_letter"
    progress = f"{stopped.name}.{sink}.progress"
    saved = stopped.raw(progress)
    stopped.recreate(progress, SHARDS)
    code, line = refusal(stopped)
    assert code == SINK
    assert (
        f"SinkError: the topic was deleted and created again: its id was {stopped.head().sink_topics[progress]}" in line
    )
    assert f"(topic {progress})" in line
    # What `restore` does with a head: it takes the topics that are there.
    stopped.overwrite(stopped.layout.head, stopped.head().model_copy(update={"sink_topics": {}}).encode())
    code, line = refusal(stopped)
    assert code == SINK
    last = stopped.head().last_recorded
    assert f"SinkError: progress mark -1 lies outside the chain's {last} to {last}" in line
    assert "(sink dead_letter shard 0)" in line
    stopped.restore(progress, saved)
    code, line = refusal(stopped, {"window_ms": 1})
    assert code == SETTINGS, "with its marks back the sink is no longer what is refused"


def test_a_head_that_is_gone_beside_what_its_chain_left_is_refused(stopped: Pipeline) -> None:
    with _replaced(stopped, stopped.layout.head, None):
        code, line = refusal(stopped)
    assert code == STORE
    assert line.startswith("StoreError: the object store does not find the chain's head, and holds ")


def test_a_chain_that_was_deleted_while_the_sinks_are_published_is_refused(stopped: Pipeline) -> None:
    left = [name for folder in stopped.layout.left_by_a_chain for name in stopped.store.names(folder)]
    with ExitStack() as gone:
        for name in (stopped.layout.head, *left):
            gone.enter_context(_replaced(stopped, name, None))
        code, line = refusal(stopped)
    assert code == SINK
    assert re.match(r"SinkError: progress mark \d+ lies outside the chain's -1 to -1", line)
    assert "Restore both from one backup" in line


def test_a_head_that_cannot_be_read_is_refused_and_left_alone(stopped: Pipeline) -> None:
    with _replaced(stopped, stopped.layout.head, b'{"format": 1'):
        code, line = refusal(stopped)
        found = stopped.store.answer(Get(stopped.layout.head))
    assert code == CHAIN
    assert "ChainError: head cannot be read" in line
    assert "do not delete it" in line
    assert isinstance(found, Found)
    assert found.body == b'{"format": 1'


# More of them are tried in tests/unit/library/test_checkpoints.py.
GARBLED = [("offsets", b'v1\n{"cut'), ("offsets", b"\x00\xff"), ("commits", b"nonsense"), ("metadata", b"{]")]


@pytest.mark.parametrize(
    ("log", "content"), [("metadata", None), *(pytest.param(*one, marks=pytest.mark.slow) for one in GARBLED)]
)
def test_a_corrupt_checkpoint_object_is_named_with_what_to_delete(
    stopped: Pipeline, log: str, content: bytes | None
) -> None:
    folder = stopped.layout.checkpoint(stopped.head().tail[-1].lineage)
    key = f"{folder}/metadata" if log == "metadata" else _newest(stopped, f"{folder}/{log}/")
    with _replaced(stopped, key, content):
        code, line = refusal(stopped)
    assert code == CHECKPOINT
    assert line.startswith("CheckpointError: a checkpoint object cannot be read: ")
    assert f"({key})" in line
    assert f"Delete the folder {folder} (never head.json)" in line


@pytest.mark.slow
def test_after_the_corrupt_checkpoint_is_deleted_as_told_the_pipeline_continues_exactly_once(
    stopped: Pipeline,
) -> None:
    folder = stopped.layout.checkpoint(stopped.head().tail[-1].lineage)
    stopped.overwrite(_newest(stopped, f"{folder}/offsets/"), b"v1\n{}\n{broken")
    code, line = refusal(stopped)
    assert code == CHECKPOINT
    told = re.search(r"Delete the folder (\S+) ", line)
    assert told is not None
    for name in list(stopped.store.names(f"{told[1]}/")):
        stopped.store.answer(Delete(name))

    before = len(stopped.epochs())
    stopped.send(mixture(1, 300, first=600))
    driver = stopped.start()
    stopped.wait_processed(driver)
    driver.stop(30)
    assert driver.status() == 0, driver.post_mortem()
    counts = assert_exact(stopped)
    assert counts["DUPLICATE"] > 0
    assert len(stopped.epochs()) > before
    assert stopped.epochs()[-1].lineage not in folder


@contextmanager
def _replaced(pipeline: Pipeline, key: str, content: bytes | None) -> Iterator[None]:
    """Put other content in an object's place (None: delete it), and put its own back at the end."""
    own = run(body_of(key), pipeline.store)
    assert own is not None, f"{key} is not there"
    if content is None:
        pipeline.store.answer(Delete(key))
    else:
        pipeline.overwrite(key, content)
    try:
        yield
    finally:
        pipeline.overwrite(key, own)


def _newest(pipeline: Pipeline, prefix: str) -> str:
    names = [name for name in pipeline.store.names(prefix) if name.rsplit("/", 1)[1].isdigit()]
    return max(names, key=lambda name: int(name.rsplit("/", 1)[1]))
