"""A bill has all that an image's layers bring, by the names and checksums that others know it by."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from packageurl import PackageURL

from infra.images import contents, packages
from infra.images.catalogue import Image
from infra.images.contents import Part, list_parts, read_hashes
from infra.images.sbom import CHECKSUM, make_sbom
from infra.toolchain import jar_lock, jars
from infra.toolchain.command import ToolchainError
from infra.toolchain.prepare import CHECKOUT
from infra.versions import DEBIAN, SPARK

DPKG = "bash\t5.2-2+b8\tamd64\tbash\t5.2-2\nprocps\t2:4.0\tamd64\tprocps\t2:4.0\n"
GO = """/cache/minio: go1.26.8 X:none
\tpath\tgithub.com/minio/minio
\tmod\tgithub.com/minio/minio\tv0.0.0-1\th1:abc=
\tdep\tgopkg.in/yaml.v3\tv3.0.1
\t=>\texample.org/fork/yaml\tv3.0.2\th1:def=
\tbuild\t-trimpath=true
"""
REFERENCE = "effectively-once-spark:0123456789ab"
CREATED = datetime(2026, 11, 27, 10, tzinfo=UTC)


def _jar(path: Path, *inside: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = path.name.encode()
        for name in inside:
            archive.writestr(name, "")
    return path


def _installed(folder: Path, name: str, version: str) -> Path:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nName: text\n")
    return folder


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Image]:
    """Two layers upon a base that bring one of each sort; one of the jars is of a lock."""
    locked = _jar(tmp_path / "jars" / "native-1.0-linux.jar")
    poms = tmp_path / "poms"
    (poms / "own").mkdir(parents=True)
    jar_lock.write(poms / "own" / jar_lock.NAME, [jar_lock.Jar("org.a", "native", "1.0", "linux", _sha256(locked))])
    monkeypatch.setattr(jars, "POMS", poms)
    _jar(tmp_path / "pyspark" / "jars.jar").rename(tmp_path / "pyspark" / "two-2.0.jar")
    carried = ["META-INF/maven/org.b/three/pom.properties", "META-INF/maven/org.c/shaded/pom.properties"]
    _jar(tmp_path / "jars" / "three-3.0.jar", *carried)
    (tmp_path / "minio").write_bytes(b"\x7fELF and more")
    ((numpy, version),) = [one for one in read_hashes(packages.LOCK) if one[0] == "numpy"]
    layers = [
        Image("base"),
        Image("deps", "base", {"packages": _installed(tmp_path / "packages", numpy, version)}),
        Image(
            "spark",
            "deps",
            {
                "spark": tmp_path / "pyspark",
                "jars": tmp_path / "jars",
                "minio": tmp_path / "minio",
                "wheel": _installed(tmp_path / "wheel", "Own.Wheel", "0.1"),
                "Dockerfile": b"FROM scratch",
            },
            {"wheel": "ab" * 32},
        ),
    ]
    return {image.name: image for image in layers}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def parts(images: dict[str, Image]) -> list[Part]:
    return list_parts(images["spark"], images, DPKG, lambda _: GO)


def test_all_that_the_layers_bring_is_named_as_its_own_world_does(
    parts: list[Part], images: dict[str, Image], tmp_path: Path
) -> None:
    here = (("arch", "amd64"), ("distro", DEBIAN))
    locked = read_hashes(packages.LOCK, CHECKOUT / "requirements.lock")
    (numpy,) = [one for one in parts if one.name == "numpy"]
    assert numpy.published == locked["numpy", numpy.version] != ()
    assert parts == sorted(
        [
            numpy,
            Part("deb", "debian", "bash", "5.2-2+b8", qualifiers=(*here, ("upstream", "bash@5.2-2"))),
            Part("deb", "debian", "procps", "2:4.0", qualifiers=here),
            Part("generic", "", "minio", "", _sha256(tmp_path / "minio")),
            Part("generic", "", "own-wheel", "0.1", published=("ab" * 32,)),
            Part("generic", "", "two", "2.0", _sha256(tmp_path / "pyspark" / "two-2.0.jar")),
            Part("golang", "", "stdlib", "1.26.8"),
            Part("golang", "example.org/fork", "yaml", "v3.0.2", checksum="h1:def="),
            Part("golang", "github.com/minio", "minio", "v0.0.0-1", checksum="h1:abc="),
            Part(
                "maven",
                "org.a",
                "native",
                "1.0",
                _sha256(tmp_path / "jars" / "native-1.0-linux.jar"),
                qualifiers=(("classifier", "linux"),),
            ),
            Part("maven", "org.b", "three", "3.0", _sha256(tmp_path / "jars" / "three-3.0.jar")),
            Part("pypi", "", "pyspark", SPARK, published=locked["pyspark", SPARK]),
        ]
    )
    assert {one.name for one in list_parts(images["deps"], images, DPKG, str)} == {"numpy", "bash", "procps"}


@pytest.mark.parametrize(
    ("stem", "artifact", "version"),
    [
        ("zstd-jni-1.5.7-7", "zstd-jni", "1.5.7-7"),
        ("log4j-1.2-api-2.25.4", "log4j-1.2-api", "2.25.4"),
        ("scala-xml_2.13-2.4.0", "scala-xml_2.13", "2.4.0"),
        ("guava-33.4.0-jre", "guava", "33.4.0-jre"),
        ("effectively-once-jvm", "effectively-once-jvm", ""),
    ],
)
def test_a_jar_that_says_nothing_of_itself_is_named_by_its_file(
    stem: str, artifact: str, version: str, tmp_path: Path
) -> None:
    found = contents.read_jar(_jar(tmp_path / f"{stem}.jar"), {})
    assert (found.kind, found.name, found.version) == ("generic", artifact, version)


def test_an_input_that_nobody_can_read_is_an_error_and_no_gap(images: dict[str, Image], tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "lib.so").touch()
    image = Image("own", "spark", {"more": tmp_path / "more"})
    with pytest.raises(ToolchainError, match=r"image own: nothing is known of what more \(.*contents\.py"):
        list_parts(image, images, DPKG, lambda _: GO)


def test_a_bill_is_what_cyclonedx_asks_for_and_the_same_each_time(parts: list[Part]) -> None:
    text = make_sbom(f"registry.example:5000/team/{REFERENCE}", parts, CREATED)
    assert make_sbom(f"registry.example:5000/team/{REFERENCE}", parts[::-1], CREATED) == text
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    UUID(bill["serialNumber"].removeprefix("urn:uuid:"))
    about = bill["metadata"]["component"]
    assert (about["type"], about["name"], about["version"]) == ("container", *REFERENCE.split(":"))
    found = bill["components"]
    assert len(found) == len(parts)
    assert {one["type"] for one in found} == {"library"}
    refs = [about["bom-ref"], *(one["bom-ref"] for one in found)]
    assert max(Counter(refs).values()) == 1
    (root,) = [one for one in bill["dependencies"] if one.get("dependsOn")]
    assert (root["ref"], sorted(root["dependsOn"])) == (refs[0], sorted(refs[1:]))
    for one in found:
        where = PackageURL.from_string(one["purl"])
        assert (where.namespace or "", where.name) == (one.get("group", ""), one["name"])
        told = [*one.get("hashes", ()), *(h for ref in one.get("externalReferences", ()) for h in ref["hashes"])]
        assert all(h["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", h["content"]) for h in told)
        checksums = [p["value"] for p in one.get("properties", ()) if p["name"] == CHECKSUM]
        assert told or checksums or where.type == "deb" or where.name == "stdlib", one


def test_another_part_is_another_bill(parts: list[Part]) -> None:
    number = {json.loads(make_sbom(REFERENCE, some, CREATED))["serialNumber"] for some in (parts, parts[1:])}
    assert len(number) == 2
