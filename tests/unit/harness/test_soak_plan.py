"""The plan of a soak is read from a file, with mistakes named, or drawn from a seed; the reference campaign adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.toolchain.prepare import CHECKOUT
from tests.harness.campaigns import chaos
from tests.harness.campaigns.options import Campaign
from tests.harness.cluster_sorts import CLUSTER, USUAL_NODES, USUAL_ROLES, sorts_on
from tests.harness.conditions import Conditions
from tests.harness.cut_sorts import CUT
from tests.harness.mixture import EMBEDDED, STACKS, Stack, parse_faults
from tests.harness.portions import seeded_for
from tests.harness.slow_disk_sorts import SLOW_DISK
from tests.harness.soak.plan import DRAWN_FAULTS, SORTS, Part, Plan, PlanError, draw, read_plan
from tests.harness.stall_sorts import DELAYED
from tests.harness.subject import PLACES
from tests.harness.workload.bounds import LATE_COPIES, LATE_OWN
from tests.harness.workload.shape import Numbers

CAMPAIGNS = CHECKOUT / "tests" / "harness" / "campaigns"
REFERENCE, STALLS = CAMPAIGNS / "reference.toml", CAMPAIGNS / "stalls.toml"
BEYOND = (
    "cluster-memory",
    "cluster-node",
    "cluster-result-store",
    "embedded-clock",
    "embedded-stalls",
    "cluster-stalls",
    "embedded-cuts",
    "cluster-cuts",
    "embedded-slow-disks",
    "cluster-slow-disks",
    "cluster-requests",
)
"""Parts that the numbers of the campaign do not rest on."""
NEEDED = {
    "executor-kill": 100,
    "driver-kill": 20,
    "zombie": 20,
    "broker-kill": 10,
    "store-kill": 10,
    "database-kill": 5,
    "operator-kill": 5,
}
GOOD: dict[str, Any] = {"name": "one", "stack": "embedded", "seed": 7, "faults": "zombie*2", "records": 9000}


def written(folder: Path, document: object) -> Path:
    path = folder / "plan.json"
    path.write_bytes(orjson.dumps(document))
    return path


def test_a_plan_is_read_from_toml_and_from_json(tmp_path: Path) -> None:
    lines = "\n".join(f"{name} = {orjson.dumps(value).decode()}" for name, value in GOOD.items())
    toml = tmp_path / "plan.toml"
    toml.write_text(f'name = "two"\n[[part]]\n{lines}\n')
    assert read_plan(toml) == read_plan(written(tmp_path, {"name": "two", "part": [GOOD]}))
    assert read_plan(toml).parts == (Part(**GOOD),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stack": "mainframe"}, "part 1 (one), stack, Input should be 'embedded' or 'cluster', and is 'mainframe'"),
        ({"faults": "zombie*2,flood"}, "part 1 (one), faults: there is no fault 'flood'; there are: all, a number, "),
        ({"faults": "operator-kill"}, "there is no fault 'operator-kill'"),
        ({"seed": -1}, "part 1 (one), seed, Input should be greater than or equal to 0, and is -1"),
        ({"records": 9}, "part 1 (one), records, Input should be greater than or equal to 100, and is 9"),
        ({"name": "One part"}, "part 1 (One part), name, String should match pattern"),
        ({"sead": 7}, "part 1 (one), sead, Extra inputs are not permitted"),
    ],
)
def test_a_mistake_is_named_with_part_field_and_what_is_allowed(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {"name": "p", "part": [GOOD | change]})
    with pytest.raises(PlanError) as raised:
        read_plan(path)
    assert said in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"name": "p"}, "part, Field required"),
        ({"name": "p", "part": []}, "part, Tuple should have at least 1 item"),
        ({"name": "p", "part": [GOOD, GOOD | {"seed": 8}]}, "two parts are called one"),
        ({"name": "p", "part": [GOOD, GOOD | {"name": "two"}]}, "two parts have seed 7 on embedded"),
        ([], "Input should be a valid dictionary"),
    ],
)
def test_what_is_no_plan_is_refused(document: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=said):
        read_plan(written(tmp_path, document))


def test_one_seed_on_two_stacks_is_two_runs() -> None:
    cluster = GOOD | {"name": "two", "stack": "cluster"}
    assert len(Plan.model_validate({"name": "p", "part": [GOOD, cluster]}).parts) == 2


@pytest.mark.parametrize(("name", "content"), [("plan.json", "{"), ("plan.toml", "name = "), ("plan.toml", "\udcff")])
def test_a_file_in_another_format_is_refused(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(PlanError, match=f"is no {path.suffix[1:].upper()}"):
        read_plan(path)
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        read_plan(tmp_path / "absent.toml")


@pytest.fixture
def asked_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Part], Campaign]:
    """What the campaign takes the command of a part for."""
    asked: list[Campaign] = []
    monkeypatch.setattr(chaos, "play", lambda campaign: 7 * (asked.append(campaign) is None))  # type: ignore[func-returns-value]

    def ask(part: Part) -> Campaign:
        module, *words = part.command
        assert (module, chaos.main(words)) == (chaos.__name__, 7)
        return asked.pop()

    return ask


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("controls", [True, False])
def test_the_command_of_a_part_is_understood_and_asks_for_what_the_part_says(
    asked_by: Callable[[Part], Campaign], stack: Stack, controls: bool
) -> None:
    asked = asked_by(Part.model_validate(GOOD | {"stack": stack, "controls": controls}))
    assert (asked.on, asked.seed, asked.faults, asked.records) == (stack, 7, "zombie*2", 9000)
    assert asked.controls == controls


SETTINGS = {"campaign": "embedded", "records": "9000", "faults": "zombie,zombie"}
MANIFEST: dict[str, Any] = {"seed": 7, "settings": SETTINGS, "controls": []}
"""Of the run of the part."""
NOT_SET = {"repair": False, "rate": None}
"""Conditions that the judge reads too stand there as its defaults where nobody set them."""


@pytest.mark.parametrize(
    "asked",
    [{"stall_s": [6, 12], "network_s": 5, "short_pipes": True}, {"rate": 250, "idle_ms": 300_000, "skew": 100}],
    ids=["stalls", "unpaced"],
)
def test_the_conditions_of_a_part_are_asked_for_and_told_by_its_run(
    asked_by: Callable[[Part], Campaign], asked: dict[str, Any]
) -> None:
    part = Part.model_validate(GOOD | {"conditions": asked})
    given = asked_by(part).conditions
    assert given == part.conditions == Conditions.model_validate(asked)
    told = MANIFEST | {"settings": SETTINGS | NOT_SET | given.named}
    assert (part.is_run(told), part.is_run(MANIFEST), Part(**GOOD).is_run(told)) == (True, False, False)
    assert Part(**GOOD).is_run(MANIFEST | {"settings": SETTINGS | NOT_SET})
    for name in given.named:
        assert not part.is_run(told | {"settings": told["settings"] | {name: "1"}}), name


def test_a_run_is_that_of_its_part_only() -> None:
    part = Part(**GOOD)
    assert part.is_run(MANIFEST)
    for change in ({"seed": 8}, {"controls": [{"name": "x"}]}):
        assert not part.is_run(MANIFEST | change)
    for changed in ({"campaign": "cluster"}, {"records": "1"}, {"faults": "zombie"}):
        assert not part.is_run(MANIFEST | {"settings": SETTINGS | changed})
    assert not part.is_run({})
    drawn_by_number = part.model_copy(update={"faults": "1"})
    assert drawn_by_number.is_run(MANIFEST), "what a number comes to is told by the stack"
    assert part.model_copy(update={"faults": "stalls,task-kill"}).is_run(MANIFEST), "and so is a group"
    by_kind = part.model_copy(update={"faults": "cuts"})
    assert by_kind.is_run(MANIFEST | {"settings": SETTINGS | {"faults": "store-cut"}}), "where there is no database"


@given(seed=st.integers(0, 2**31), number=st.integers(1, 500))
def test_a_part_that_is_drawn_follows_from_seed_and_number(seed: int, number: int) -> None:
    one = draw(seed, number, STACKS)
    assert one == draw(seed, number, STACKS)
    assert one.name == f"part-{number}"
    assert one.stack == STACKS[(number - 1) % 2]
    assert one.controls == (number <= 2)
    assert len(parse_faults(one.faults, one.seed, SORTS[one.stack])) == DRAWN_FAULTS


def test_parts_that_are_drawn_differ() -> None:
    assert len({draw(1, number, ("embedded",)).seed for number in range(1, 100)}) > 90
    assert draw(1, 1, ("embedded",)).seed != draw(2, 1, ("embedded",)).seed


def test_the_reference_campaign_has_the_faults_that_it_needs_and_some_to_spare() -> None:
    parts = [one for one in read_plan(REFERENCE).parts if one.name not in BEYOND]
    done = sum((one.strikes for one in parts), Counter[str]())
    for name, needed in NEEDED.items():
        assert done[name] >= needed * 1.1, name


def test_the_reference_campaign_has_every_sort_on_each_stack() -> None:
    """On the cluster those of the profile that it is run on, which has one broker."""
    for stack, sorts in (("embedded", EMBEDDED), ("cluster", sorts_on(USUAL_NODES, USUAL_ROLES))):
        parts = [one for one in read_plan(REFERENCE).parts if one.stack == stack]
        assert {name for one in parts for name in one.strikes} == set(sorts), stack
        assert [one.controls for one in parts].count(True) == 1


def test_the_campaign_of_stalls_has_those_that_it_needs_on_each_stack() -> None:
    parts = read_plan(STALLS).parts
    for stack in STACKS:
        done = sum((one.strikes for one in parts if one.stack == stack), Counter[str]())
        assert done["neighbour-stall"] >= 50
        sorts = EMBEDDED if stack == "embedded" else sorts_on(USUAL_NODES, USUAL_ROLES)
        assert set(done) == {name for name, one in sorts.items() if one.kind in (*DELAYED, CUT, SLOW_DISK)}
    assert sum(sum(one.strikes.values()) for one in parts) >= 200


def test_the_reference_campaign_sends_a_million_ids_with_copies_and_late_ones() -> None:
    ids = copies = late = 0
    for part in read_plan(REFERENCE).parts:
        if part.name not in BEYOND:
            numbers = numbers_of(part)
            ids, copies, late = ids + unique_ids(part), copies + numbers.duplicates_sent, late + numbers.late_sent
    assert ids > 1_100_000
    assert copies >= 0.05 * ids
    assert late >= 0.01 * ids


def test_the_stream_of_a_part_has_the_ids_that_its_numbers_promise() -> None:
    part = next(one for one in read_plan(REFERENCE).parts if one.name == "cluster-1")
    records = list(seeded_for(part.seed, part.records, parse_faults(part.faults, part.seed, CLUSTER)).records())
    kinds = Counter(one.kind for one in records)
    assert (kinds["duplicate"], kinds["late"]) == (numbers_of(part).duplicates_sent, numbers_of(part).late_sent)
    assert len({one.id for one in records if one.kind != "malformed"}) == unique_ids(part)


def numbers_of(part: Part) -> Numbers:
    return seeded_for(part.seed, part.records, parse_faults(part.faults, part.seed, SORTS[part.stack])).numbers


def unique_ids(part: Part) -> int:
    """Of late records those have an id of their own that are no copies of accepted ones: 10 of 11, and at bounds."""
    numbers, bounds = numbers_of(part), len(PLACES)
    own_late = (numbers.late_sent - bounds * (LATE_OWN + LATE_COPIES)) * 10 // 11 + bounds * LATE_OWN
    return part.records - numbers.duplicates_sent - numbers.malformed_sent - (numbers.late_sent - own_late)
