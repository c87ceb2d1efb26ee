"""References of the images."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from infra.settings.field_types import Label, PinnedImage
from infra.settings.section import Section

JOB_IMAGE = "job-"
"""Before the name of a user's wheel, where its image stands among ours."""


class Images(Section):
    """Whole references of our images, each by a tag, by a digest, or by both; the digest is what is pulled.

    Attributes:
        monitoring: of what watches; needed where that is enabled, and built then alone.
        jobs: images with a wheel of yours more, by its name; as a key of `images` it is `job-<name>`.
    """

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"), populate_by_name=True)

    spark: PinnedImage
    spark_operator: PinnedImage
    kafka: PinnedImage
    minio: PinnedImage
    postgres: PinnedImage
    monitoring: PinnedImage | None = None
    jobs: dict[Label, PinnedImage] = Field(default_factory=dict)

    def references(self) -> dict[str, str]:
        """Return them flat, as stack outputs and bundles tell them: by the names that the setting `images` knows."""
        own = self.model_dump(by_alias=True, exclude_none=True, exclude={"jobs"})
        return {**own, **{f"{JOB_IMAGE}{name}": reference for name, reference in self.jobs.items()}}
