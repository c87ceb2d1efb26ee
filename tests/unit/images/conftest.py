"""A fake engine, as in the tests of the cluster."""

from tests.unit.cluster.conftest import _elsewhere, console, docker, machine, said

__all__ = ["_elsewhere", "console", "docker", "machine", "said"]
