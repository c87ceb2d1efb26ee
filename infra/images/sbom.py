"""Bills of materials of images (SBOM), in CycloneDX's JSON: the same bytes for the same image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from infra.images.builder import Builder
from infra.images.contents import DPKG_FORMAT, Part, list_parts
from infra.toolchain.go import read_build

FOLDER = Path("build") / "sbom"
SUFFIX = ".cdx.json"
CHECKSUM = "effectively-once:go.sum"
"""Name of the property with a module's checksum: it is made from those of its files, and none of a file."""


def write_sboms(builder: Builder, only: str, folder: Path) -> Iterator[tuple[Path, int]]:
    """Build what is missing, then write the bill of each published image, or of one; yield its file and its length.

    Raises EngineError and ToolchainError for what cannot be built or read.
    """
    references = builder.build_all()
    images = {image.name: image for image in builder.list_images()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, reference in references.items():
        if only in ("", name):
            listing = builder.query_packages(reference, f"--showformat={DPKG_FORMAT}")
            parts = list_parts(images[name], images, listing, partial(read_build, builder.cache))
            created = builder.engine.run("image", "inspect", "--format", "{{.Created}}", reference)
            path = folder / f"{name}{SUFFIX}"
            path.write_text(make_sbom(reference, parts, datetime.fromisoformat(created)))
            yield path, len(parts)


def make_sbom(reference: str, parts: Sequence[Part], created: datetime) -> str:
    """Return the bill of an image.

    Args:
        reference: of the image; its tag is made from what is in it.
        parts: all that is in it.
        created: when the image was.

    """
    name, _, tag = reference.rpartition(":")
    image = Component(name=name.rpartition("/")[2], version=tag, type=ComponentType.CONTAINER, bom_ref=reference)
    components = [_component(part) for part in parts]
    about = BomMetaData(component=image, timestamp=created)
    number = uuid5(NAMESPACE_URL, "\n".join([reference, *map(repr, sorted(parts))]))
    bom = Bom(serial_number=number, metadata=about, components=components)
    bom.register_dependency(image, components)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _component(part: Part) -> Component:
    where = PackageURL(part.kind, part.group or None, part.name, part.version or None, dict(part.qualifiers))
    url = where.to_string()
    return Component(
        name=part.name,
        group=part.group or None,
        version=part.version or None,
        type=ComponentType.LIBRARY,
        # Of one name and version there may be two jars.
        bom_ref=f"{url}#{part.sha256[:12]}" if part.sha256 else url,
        purl=where,
        hashes=_hashes(part.sha256) if part.sha256 else (),
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(url),
                comment="published as one of the files with these hashes",
                hashes=_hashes(*part.published),
            )
        ]
        if part.published
        else (),
        properties=[Property(name=CHECKSUM, value=part.checksum)] if part.checksum else (),
    )


def _hashes(*sha256: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=one) for one in sha256]
