"""Who has to object: of each file the oracles whose matter it is."""

from __future__ import annotations

from tests.harness.checkers import bound
from tests.tampered.alterations import Alteration
from tests.tampered.places import matches

SINK = ("multiset", "messages", "aggregates", "monotone", "chain", "quiet", "epilogue")
GATES = ("certificates", "in time", "answers")
"""Asked of runs alone whose records come from gateways."""
DUE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("controls/*/bound.json|bound.json", ("bound",)),
    ("controls/*", ("controls", "bound", "minimum")),
    ("statements.jsonl", ("certificates",)),
    ("asked.jsonl", ("answers",)),
    ("observed/*.concurrent.jsonl", ("monotone", "minimum")),
    (
        "observed/chain.json",
        ("chain", "coverage", "epochs", "windows", "decisions", "epilogue", "bound", "multiset", *GATES),
    ),
    ("observed/quiet.json", ("quiet", "epilogue")),
    ("observed/epilogue.json", ("epilogue", "decisions")),
    ("observed/*", SINK),
    (
        "history.jsonl",
        (
            "history",
            "epochs",
            "faults",
            "chain",
            "acknowledged",
            "monotone",
            "quiet",
            "bound",
            "endings",
            "goes on",
            *GATES,
        ),
    ),
    ("settings.json|settings-epilogue.json", ("bound",)),
    ("sent.jsonl", ("multiset", "aggregates", "chain", "workload", "coverage", "decisions", "windows", *GATES)),
    (
        "manifest.json",
        (
            "workload",
            "faults",
            "multiset",
            "messages",
            "quiet",
            "controls",
            "minimum",
            "bound",
            "chain",
            "aggregates",
            "epilogue",
            "windows",
            "decisions",
            *GATES,
        ),
    ),
)
"""Files -> oracles, of the first pattern that a file is of."""


def due_to_object(alteration: Alteration) -> tuple[str, ...]:
    """Return the oracles of which one at least has to object; where a run was not bound anew, that is `bound`."""
    if alteration.file == "manifest.json" and alteration.field == "document.control":
        # What says that it is a control is judged as one, and is to fail.
        return (bound.NAME, *SINK, "workload", "faults")
    if not alteration.bound:
        return (bound.NAME,)
    return next((oracles for files, oracles in DUE if matches(files, alteration.file)), ())
