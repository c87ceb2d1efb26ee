"""Answers `pulumi` about the resources of a stack: which break a rule. Its protocol is that of policy packs.

Pulumi's own package for them, pulumi-policy, asks for another protobuf than `pulumi` itself does here; the gRPC service
that it wraps is in `pulumi` (docs/adr/0106).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime import rpc
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

from infra.policy.pods import Object
from infra.policy.rules import BUDGET, RULES, broken, without_budget
from infra.settings.load import read_security
from infra.settings.security import Security

NAME: Final = "effectively-once"
VERSION: Final = "0.1.0"
"""As PulumiPolicy.yaml has them."""
_BUDGET: Final = "budget"
_KUBERNETES: Final = "kubernetes:"
_OF_CHARTS: Final = "kubernetes:helm.sh/"


def read_object(kind: str, properties: Any) -> Object | None:
    """Return the object of a resource, None when it is none of Kubernetes, or not whole enough to be looked at.

    A chart is the sum of its objects, which come one by one.
    """
    if not kind.startswith(_KUBERNETES) or kind.startswith(_OF_CHARTS):
        return None
    found = rpc.deserialize_properties(properties, keep_unknowns=True)
    plain = {name: rpc.unwrap_rpc_secret(value) for name, value in found.items()}
    named = isinstance(metadata := plain.get("metadata"), Mapping) and isinstance(metadata.get("name"), str)
    return {**plain, "kind": kind.rpartition(":")[2]} if named else None


class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
    """One stack's judge; until the stack is told, nothing optional is asked for."""

    def __init__(self, stop: threading.Event) -> None:
        """`stop` is set when the engine asks to end."""
        self._stop = stop
        self._security = Security()

    # Names and arguments are those of the protocol.
    def GetAnalyzerInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Return the rules; each ends an update."""
        rules = {**{rule.name: rule.message for rule in RULES}, _BUDGET: BUDGET}
        policies = [
            analyzer_pb2.PolicyInfo(name=name, description=says, enforcementLevel=analyzer_pb2.MANDATORY)
            for name, says in rules.items()
        ]
        return analyzer_pb2.AnalyzerInfo(name=NAME, version=VERSION, policies=policies)

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Return the version of the pack."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Take nothing: rules have no settings but the stack's."""
        return empty_pb2.Empty()

    def ConfigureStack(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Take what the stack asks to be encrypted and pinned."""
        self._security = read_security(request.config)
        return analyzer_pb2.AnalyzerStackConfigureResponse()

    def Analyze(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Return what one resource breaks, before it is made or changed."""
        one = read_object(request.type, request.properties)
        found = {} if one is None else broken(one, self._security)
        return analyzer_pb2.AnalyzeResponse(
            diagnostics=[_diagnostic(rule.name, rule.message, lines, request.urn) for rule, lines in found.items()]
        )

    def AnalyzeStack(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Return what takes a whole stack to see."""
        every = {one.urn: read_object(one.type, one.properties) for one in request.resources}
        urns = {id(one): urn for urn, one in every.items()}
        missing = without_budget(one for one in every.values() if one is not None)
        return analyzer_pb2.AnalyzeResponse(
            diagnostics=[_diagnostic(_BUDGET, BUDGET, [line], urns[id(one)]) for one, line in missing]
        )

    def Remediate(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Change nothing."""
        return analyzer_pb2.RemediateResponse()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """End soon."""
        self._stop.set()
        return empty_pb2.Empty()


def _diagnostic(name: str, message: str, lines: list[str], urn: str) -> Any:
    return analyzer_pb2.AnalyzeDiagnostic(
        policyName=name,
        policyPackName=NAME,
        policyPackVersion=VERSION,
        description=message,
        message="\n".join([message, *lines]),
        enforcementLevel=analyzer_pb2.MANDATORY,
        urn=urn,
    )
