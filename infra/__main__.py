"""The Pulumi program: settings, cluster, platform. Run by `pulumi up` and `pulumi preview`; wiring only."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pulumi

# Pulumi's own language host runs this file with only its folder on the path.
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(path) for path in (ROOT, ROOT / "pipelines" / "src") if str(path) not in sys.path]

from infra import assembly, settings  # noqa: E402
from infra.certificates import CertificateError  # noqa: E402
from infra.cluster.api import Api, ClusterError  # noqa: E402
from infra.components import admission, priority_classes, shape, target  # noqa: E402
from infra.components.namespaces import find_brought, open_doors  # noqa: E402
from infra.operate import update  # noqa: E402
from infra.operate.pulling import pods_of, watch  # noqa: E402
from infra.operate.ready import Wait  # noqa: E402


def give_up(why: str) -> None:
    """End the update with what nobody needs to wait for."""
    pulumi.log.error(why)
    update.cancel()


def main() -> None:
    """Read, build, export; wrong settings end the update with one line each, before anything is created."""
    try:
        wanted = settings.read()
        context = target.choose(wanted, os.environ)
        assembly.check(wanted)
        provider = target.provider(context)
        kubeconfig = target.kubeconfig_path(os.environ)
        cluster = Api(kubeconfig, context)
        shape.require_same(wanted, cluster.find)
        theirs = find_brought(wanted, cluster.find)
        wanted, classless = priority_classes.resolve(wanted, cluster.find, cluster.may)
        for line in (*classless, *open_doors(theirs)):
            pulumi.log.warn(line)
        if not (policies := admission.supported(cluster.find)):
            pulumi.log.warn(admission.MISSING)
        namespaces = sorted({wanted.namespace, wanted.operator_namespace, wanted.pipelines_namespace})
        dry = pulumi.runtime.is_dry_run()
        before = set() if dry else {pod.metadata.uid for pod in pods_of(cluster, namespaces)}

        def works(pipeline: str) -> None:
            try:
                known = Wait(cluster, wanted.pipelines_namespace, pipeline).until_ready()
            except ClusterError as error:
                raise pulumi.RunError(str(error)) from None
            pulumi.log.info(f"pipeline {pipeline}: {known}")

        build = partial(assembly.build, wanted, provider, theirs, policies=policies)
        pulumi.export("platform", build(None if dry else works))
        if not dry:
            # Until this process ends: that is when every resource is ready, or given up.
            watch(lambda: cluster, namespaces, pulumi.log.warn, give_up=give_up, before=before)
    except settings.SettingsError as wrong:
        raise pulumi.RunError("wrong settings, nothing was created:\n" + "\n".join(wrong.lines)) from None
    except CertificateError as error:
        raise pulumi.RunError(str(error)) from None
    except ClusterError as error:
        raise pulumi.RunError(f"nothing was changed: {error}") from None


main()
