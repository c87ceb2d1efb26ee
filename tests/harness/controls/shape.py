"""What a control sends in all its rounds."""

from tests.harness.controls.names import NegativeControl
from tests.harness.workload.shape import Shape

TRIES = 5
"""Rounds at most."""


def shape_of(control: NegativeControl) -> Shape:
    """In time and well-formed; copies only where they are what is judged."""
    return Shape(records=control.records * TRIES, duplicates=control.copies, late=0.0, straddling=0.0, malformed=0.0)
