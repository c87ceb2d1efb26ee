"""Negative controls: what each leaves out, so why the oracle has to find something, and what it found."""

from dataclasses import dataclass
from typing import Any

from tests.harness.report import typeset
from tests.harness.report.lenient import mapping, mappings, text, whole

KINDS = ("missing", "duplicated", "phantom", "corrupted")

# By a word of the control's name; the first that fits is taken.
WHY = (
    (
        "kafka_sink",
        "Spark's own Kafka sink keeps no progress mark: a killed task is repeated and writes its rows again.",
    ),
    (
        "two_drivers",
        "Without the chain nothing makes two drivers agree what an epoch holds: each publishes all, with marks of its "
        "own.",
    ),
    ("uncommitted", "A reader that does not wait for the commit also sees the rows of transactions that were aborted."),
    ("catalog", "Without the dedup catalog the copies a producer sends again pass as new records."),
    ("bloom", "A Bloom filter takes some new ids for old ones; as the only judge it loses those records."),
    ("mark_first", "A progress mark committed before the data skips, after a kill, what was never written."),
    ("before_data", "A progress mark committed before the data skips, after a kill, what was never written."),
    ("append", "Appending without a progress mark writes the rows of an epoch again when a kill makes it repeat."),
    (
        "without_mark",
        "Appending without a progress mark writes the rows of an epoch again when a kill makes it repeat.",
    ),
)
OTHERWISE = "It leaves out a part of the protocol, so the oracle has to find that its output is wrong."


@dataclass(frozen=True)
class Control:
    """One line of the table of controls."""

    name: str
    must: str
    verdict: str
    as_required: bool
    why: str
    showed: str


def controls(results: dict[str, Any], manifest: dict[str, Any], recorded: dict[str, dict[str, Any]]) -> list[Control]:
    """Join what `results.json` says of the controls with what their own run directories show.

    A control that was planned or has a directory, but is not in `results.json`, is listed with verdict unknown.
    """
    listed = {text(entry.get("name")): entry for entry in mappings(results.get("controls"))}
    planned = {text(entry.get("name")): entry for entry in mappings(manifest.get("controls"))}
    found = []
    for name in dict.fromkeys([*listed, *planned, *recorded]):
        entry = listed.get(name, {})
        must = text(entry.get("must")) or text(planned.get(name, {}).get("must")) or "fail"
        verdict = text(entry.get("verdict")) or "unknown"
        found.append(Control(name, must, verdict, verdict == must, why(name), _show(recorded.get(name))))
    return found


def why(name: str) -> str:
    """Say why a control of this name must fail."""
    plain = name.lower().replace("-", "_")
    return next((sentence for word, sentence in WHY if word in plain), OTHERWISE)


def _show(results: dict[str, Any] | None) -> str:
    if not results:
        return "Its own results are not in the run directory."
    parts = []
    for sink, row in mapping(results.get("outputs")).items():
        numbers = {kind: whole(mapping(row).get(kind)) for kind in KINDS}
        told = [f"{typeset.count(number)} {kind}" for kind, number in numbers.items() if number]
        of = typeset.count(whole(mapping(row).get("expected")))
        parts.append(f"{sink}: {', '.join(told) if told else 'nothing wrong'} (of {of} expected)")
    # What a reader saw during the run is not in the numbers of the outputs, which are those of one that came late.
    parts += [
        text(oracle.get("says"))
        for oracle in mappings(results.get("oracles"))
        if oracle.get("name") == "monotone" and oracle.get("verdict") == "fail"
    ]
    faults = mappings(results.get("faults"))
    if faults:
        hit = sum(fault.get("hit") is True for fault in faults)
        parts.append(f"{hit} {'kill' if hit == 1 else 'kills'} hit")
    return "; ".join(parts) + "."
