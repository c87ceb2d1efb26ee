"""The deployed pipeline that a run takes image and resources of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.errors import UserError

USER_COUNTS = "user_counts"


class NotDeployedError(UserError):
    """The stack has no pipeline whose image and resources a run could take; the message says what to do."""


@dataclass(frozen=True)
class Target:
    """What a run needs to know of the stack: the namespace of pipelines, and the values of a deployed one."""

    namespace: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, output: str, name: str = USER_COUNTS) -> Target:
        """Read `pulumi stack output --json`: of the pipeline of a name, or else of `user_counts`.

        Raises:
            NotDeployedError: there is neither.
        """
        try:
            platform = json.loads(output)["platform"]
            pipelines, namespace = platform["pipelines"], platform["namespaces"]["pipelines"]
        except (ValueError, KeyError, TypeError) as error:
            raise NotDeployedError(f"the stack's output `platform` lacks {error}: run `make up`") from error
        for one in (name, name.replace("_", "-"), USER_COUNTS, USER_COUNTS.replace("_", "-")):
            if one in pipelines:
                return cls(namespace, pipelines[one])
        there = ", ".join(sorted(pipelines)) or "none"
        raise NotDeployedError(f"the stack has no pipeline user_counts (there is: {there}): deploy it, then run again")
