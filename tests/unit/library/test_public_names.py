"""The names that job authors and readers of outputs may use: all of them there, told of, and no heavier than needed."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import effectively_once

SOURCE = Path(effectively_once.__file__)
NAMES = (
    "Average",
    "BucketAddress",
    "Collect",
    "Count",
    "CountDistinct",
    "Explode",
    "First",
    "KafkaRecord",
    "Last",
    "Max",
    "Min",
    "Outputs",
    "OwnAggregate",
    "Pipeline",
    "PipelineError",
    "RecordedStep",
    "Stateful",
    "Sum",
    "ToFiles",
    "ToIceberg",
    "ToKafka",
    "ToTable",
    "Trial",
    "Windowed",
    "ambiguous_json",
    "json_records",
    "published",
    "read_lake_table",
    "trial_session",
    "whole_number",
)
HEAVY = {
    "confluent_kafka",
    "minio",
    "numpy",
    "orjson",
    "pandas",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pyiceberg",
    "pyspark",
    "sqlalchemy",
}
ALONE = "import effectively_once"
GATEWAY = "from effectively_once.gateway import Gateway"
DECLARING = "from effectively_once import Count, Pipeline, RecordedStep, ToFiles, ToIceberg, ToKafka, ToTable, Windowed"
READING = "from effectively_once import BucketAddress, published"


def loaded_by(statement: str) -> set[str]:
    """Return which of the heavy packages a new interpreter has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": str(SOURCE.parents[1])},
    )
    return {name for name in json.loads(done.stdout) if name in HEAVY}


def test_these_names_are_public_and_no_others() -> None:
    """A name more or less is a decision: it is made here too."""
    assert tuple(effectively_once.__all__) == NAMES
    everything: dict[str, object] = {}
    exec("from effectively_once import *", everything)  # noqa: S102 - what a star brings is the question
    assert everything.keys() - {"__builtins__"} == set(NAMES)
    ours = {
        name
        for name in dir(effectively_once)
        if not name.startswith("_")
        and not isinstance(getattr(effectively_once, name), ModuleType)
        and name not in ("TYPE_CHECKING", "annotations")
    }
    assert ours == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there_and_says_what_it_is_for(name: str) -> None:
    found = getattr(effectively_once, name)
    if name == "Outputs":  # an alias of a type: the text stands below it
        return
    told = found.__doc__ or ""
    assert not told.startswith(f"{name}("), "a dataclass's own text is its signature"
    assert len(told.split()) >= 2
    assert told.split("\n")[0].endswith("."), "the first line is a sentence"


def test_what_a_type_checker_imports_is_what_a_program_gets() -> None:
    """They are written down twice: once for tools, once for the import that is put off."""
    checked = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    homes = {
        alias.name: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(homes) == set(NAMES)
    for name, home in homes.items():
        assert home is not None
        assert getattr(effectively_once, name) is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize("name", ["Driver", "pipelines", "Trials"])
def test_any_other_name_is_refused_as_python_does(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'effectively_once' has no attribute '{name}'$"):
        getattr(effectively_once, name)


def test_texts_name_only_what_is_public() -> None:
    """A reader of a public name's text finds what it sends him to."""
    for name in NAMES:
        module = sys.modules[getattr(getattr(effectively_once, name), "__module__", "effectively_once.testing")]
        text = f"{module.__doc__}\n{getattr(effectively_once, name).__doc__}"
        for other in re.findall(r"`effectively_once\.(\w+)`", text):
            assert other in NAMES, f"{name} sends to effectively_once.{other}"


def test_the_package_alone_loads_nothing_heavy() -> None:
    assert loaded_by(ALONE) == set()
    assert loaded_by(f"{ALONE}\ndir(effectively_once)") == set()


def test_a_gateway_needs_the_client_of_kafka_and_no_arrow_database_or_spark() -> None:
    loaded = loaded_by(GATEWAY)
    assert "confluent_kafka" in loaded, "the check itself sees what is loaded"
    assert loaded.isdisjoint({"pyarrow", "psycopg", "pyspark", "numpy", "pandas"})


@pytest.mark.parametrize("statement", [DECLARING, READING])
def test_declaring_and_reading_need_no_spark(statement: str) -> None:
    """Commands and readers run where there is none."""
    loaded = loaded_by(statement)
    assert "pyarrow" in loaded
    assert loaded.isdisjoint({"pyspark", "pandas"})
