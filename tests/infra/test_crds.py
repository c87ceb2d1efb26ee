"""The operator's definitions come from a folder that the stack names, and one that will not do is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.components.crds import CHECKOUT, NEEDED, find_wrong, list_files
from infra.settings import SettingsError
from infra.versions import SPARK_OPERATOR, SPARK_OPERATOR_CRDS
from tests.infra.platform import crds, deploy, settings, with_crds

OTHER_VERSION = "# Made from Spark operator 1.0.0"


def test_a_folder_of_our_version_is_applied_whole_and_in_order(tmp_path: Path) -> None:
    own = crds(tmp_path) / "sparkapplications.yaml"
    other = own.with_name("a-scheduled.yaml")
    other.write_text(own.read_text().replace("sparkapplications", "scheduled"))
    wanted = with_crds(settings(), own.parent)
    assert [*find_wrong(wanted)] == []
    assert list_files(wanted) == [str(other), str(own)]


def test_a_relative_folder_lies_in_the_repository() -> None:
    named = Path("tests/infra/no-such-folder")
    (line,) = find_wrong(with_crds(settings(), named))
    assert str(CHECKOUT / named) in line


def test_an_operator_that_is_there_brings_its_own(tmp_path: Path) -> None:
    for more in ({}, {"crds": str(tmp_path / "gone")}):
        wanted = settings(spark_operator={"installed": True, **more})
        assert ([*find_wrong(wanted)], list_files(wanted)) == ([], [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("CustomResourceDefinition", "Deployment", "is no CustomResourceDefinition"),
        ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", "is no CustomResourceDefinition"),
        (SPARK_OPERATOR_CRDS, OTHER_VERSION, f"is of another version: .*{SPARK_OPERATOR}"),
        (f"{SPARK_OPERATOR_CRDS}\n", "", f"is of another version: .*{SPARK_OPERATOR}"),
        ("{", "[", r"cannot be read \(\w*Error\)"),
        (NEEDED, "others.example", f"lacks {NEEDED}"),
    ],
    ids=["another kind", "an old interface", "another version", "no version", "no YAML", "another object"],
)
def test_a_file_that_will_not_do_is_named_with_the_way_out(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = crds(tmp_path) / "sparkapplications.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(SettingsError, match=rf"^spark_operator\.crds: {tmp_path}.*{said}.*`make tools`") as refused:
        deploy(settings(), file.parent)
    assert len(refused.value.lines) == 1


def test_without_a_folder_nothing_is_registered(tmp_path: Path) -> None:
    for wanted in (settings(), with_crds(settings(), tmp_path), with_crds(settings(), tmp_path / "gone")):
        with pytest.raises(SettingsError, match=r"^spark_operator\.crds: .*`make tools`"):
            deploy(wanted)


def test_an_empty_file_beside_the_definitions_is_refused(tmp_path: Path) -> None:
    more = crds(tmp_path) / "more.yaml"
    more.write_text("---\n")
    (line,) = find_wrong(with_crds(settings(), more.parent))
    assert "more.yaml is no CustomResourceDefinition" in line
