"""The report page as a pure function of the run directory."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tests.harness.conditions import words_of
from tests.harness.report import epochs, naming, recovery, series, story, timeline, typeset
from tests.harness.report.controls import KINDS, controls
from tests.harness.report.lenient import mapping, mappings, real, sequence, text, whole
from tests.harness.report.recording import Recording, read
from tests.harness.report.trail import Trails
from tests.harness.results import OWN_PIPELINE
from tests.harness.run_directory import write_atomically

VERDICTS = {
    "pass": "Every oracle holds and every guard is satisfied.",
    "fail": "At least one oracle found the claim broken.",
    "unknown": "The evidence does not suffice to judge this run.",
}
CAMPAIGNS = {"embedded": "", "cluster": " ON=cluster"}
"""Of `make chaos`, as manifests name them, and how its command says so."""
FOLDED = 24  # more faults than that are listed one by one only when asked for
SHOWN = 10  # offending ids listed of one oracle; the rest is in results.json

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters.update(
    count=typeset.count,
    seconds=typeset.seconds,
    words=typeset.words,
    symbol=lambda verdict: typeset.SYMBOLS.get(verdict, "?"),
)


@dataclass(frozen=True)
class Total:
    """One of the four numbers over all sinks; `at_least` when some sink does not say."""

    name: str
    value: int | None
    at_least: bool


@dataclass(frozen=True)
class Output:
    """One sink's line: its name and its numbers, in the order of the columns."""

    sink: str
    numbers: dict[str, int | None]

    @property
    def verdict(self) -> str:
        """Whether the numbers alone make the output exact."""
        wrong = [self.numbers[kind] for kind in KINDS]
        if any(wrong):
            return "fail"
        return "unknown" if None in wrong else "pass"


def render(run: Path) -> str:
    """Draw the report of a run directory as one self-contained HTML page.

    The same directory always gives the same page. Files that are missing or broken are said to be so on the page.

    Raises FileNotFoundError when there is no such directory.
    """
    recording = read(run)
    return TEMPLATES.get_template("page.html.j2").render(_view(recording, run))


def write(run: Path) -> Path:
    """Write the report of a run directory to its `report.html` and return that path.

    Raises FileNotFoundError when there is no such directory.
    """
    page = render(run)
    target = run / "report.html"
    write_atomically(target, page.encode())
    return target


def _view(run: Recording, path: Path) -> dict[str, Any]:
    results, manifest = run.results, run.manifest
    verdict = _verdict(results)
    attempts = epochs.attempts(run.history)
    faults = _faults(run)
    outputs = outputs_of(results)
    told = story.tell(run.history, attempts, series.flow(run.history, attempts), faults, run.start_ms)
    oracles = _oracles(results)
    offending = [oracle for oracle in oracles if oracle["verdict"] != "pass" and oracle["evidence"]]
    lines = [line for oracle in offending for line in oracle["evidence"][:SHOWN]]
    trails = Trails(path, run, attempts, faults, lines)
    return {
        "run": text(manifest.get("run")) or run.name,
        "date": typeset.date(real(manifest.get("started_at")) or run.start_ms),
        "control": text(manifest.get("control")),
        "verdict": verdict,
        "verdict_says": VERDICTS[verdict],
        "claim": text(results.get("claim")) or text(manifest.get("claim")) or "This run recorded no claim.",
        "reasons": _reasons(run, verdict),
        "gaps": run.gaps,
        "offending": offending,
        "trails": {line: led for line in lines if (led := trails.of(line))},
        "shown": SHOWN,
        "totals": [total(kind, outputs) for kind in KINDS],
        "facts": _facts(run, faults),
        "outputs": outputs,
        "letters": _letters(results),
        "total_row": sum_row(outputs),
        "story": told,
        "says": story.sentence(told) if told else "",
        "figures": [timeline.draw(told, frame) for frame in (timeline.WIDE, timeline.NARROW)] if told else [],
        "by_minute": _by_minute(mapping(results.get("epochs"))),
        "phases": [(phase.name, typeset.span(phase.begin, phase.end, run.start_ms)) for phase in told.phases]
        if told
        else [],
        "epochs": _epochs(run, attempts),
        "faults": [_fault_row(number, fault, run.start_ms) for number, fault in enumerate(faults, 1)],
        "faults_say": _faults_say(faults),
        "folded": FOLDED,
        "changes": [_change_row(number, one) for number, one in enumerate(mappings(results.get("changes")), 1)],
        "sorts": recovery.sorts(results),
        "bounds": recovery.bounds(results),
        "bounds_say": text(results.get("bounds_say")),
        "refusals": _refusals(faults),
        "oracles": oracles,
        "controls": controls(results, manifest, run.controls),
        "commands": _commands(run),
        "tables": _tables(run),
    }


def _verdict(of: dict[str, Any]) -> str:
    said = text(of.get("verdict"))
    return said if said in VERDICTS else "unknown"


def _reasons(run: Recording, verdict: str) -> list[str]:
    reasons = [text(reason) for reason in sequence(run.results.get("reasons"))]
    if verdict != "pass" and not reasons:
        reasons = ["results.json gives no reason." if run.results else "There are no results: this run was not judged."]
    if run.results and text(run.results.get("verdict")) not in VERDICTS:
        reasons.append("results.json holds no verdict that is pass, fail or unknown.")
    return reasons


def outputs_of(results: dict[str, Any]) -> list[Output]:
    """Return a line per sink."""
    return [
        Output(text(sink), {name: whole(mapping(row).get(name)) for name in ("expected", "observed", *KINDS)})
        for sink, row in mapping(results.get("outputs")).items()
    ]


def _letters(results: dict[str, Any]) -> str:
    """Return a sentence on dead letters by cause; empty where the results do not tell."""
    causes = mapping(mapping(mapping(results.get("outputs")).get("dead_letter")).get("causes"))
    told = [
        f"{typeset.count(number)} {cause}" for cause, value in causes.items() if (number := whole(value)) is not None
    ]
    return f"Dead letters that are due, by cause: {', '.join(told)}." if told else ""


def total(kind: str, outputs: list[Output]) -> Total:
    """Add one of the four numbers up over all sinks."""
    known = [number for output in outputs if (number := output.numbers[kind]) is not None]
    whole_story = len(known) == len(outputs)
    return Total(kind, sum(known) if known and (whole_story or sum(known)) else None, not whole_story)


def sum_row(outputs: list[Output]) -> dict[str, int | None]:
    """Return the line that adds up all sinks; a number that one does not say is None."""
    row: dict[str, int | None] = {}
    for name in ("expected", "observed", *KINDS):
        numbers = [number for output in outputs if (number := output.numbers[name]) is not None]
        row[name] = sum(numbers) if outputs and len(numbers) == len(outputs) else None
    return row


def _faults(run: Recording) -> list[dict[str, Any]]:
    if isinstance(run.results.get("faults"), list):
        return mappings(run.results["faults"])
    return [event for event in run.history if event.get("event") == "fault"]


def _facts(run: Recording, faults: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return what stands beside the four numbers: name, value, a remark."""
    workload, counted = mapping(run.results.get("workload")), mapping(run.results.get("epochs"))
    hit = sum(fault.get("hit") is True for fault in faults)
    planned = whole(run.manifest.get("faults_planned"))
    of = f"of {typeset.count(len(faults))} injected"
    extra = [
        f"{typeset.count(number)} {name}"
        for name, key in (("copies", "duplicates_sent"), ("late", "late_sent"), ("malformed", "malformed_sent"))
        if (number := whole(workload.get(key))) is not None
    ]
    return [
        ("records acknowledged", typeset.count(whole(workload.get("acknowledged"))), ", ".join(extra)),
        (
            "kills that hit" if all(fault.get("kind") == "sigkill" for fault in faults) else "faults that hit",
            typeset.count(hit if faults or run.results else None),
            of if planned is None else f"{of}, {typeset.count(planned)} planned",
        ),
        ("epochs published", typeset.count(whole(counted.get("published"))), ""),
        ("epochs replayed", typeset.count(whole(counted.get("replayed"))), "published again after a failure"),
        *_gap(counted),
        *_waits(mapping(counted.get("waits"))),
        ("run took", typeset.seconds(real(run.results.get("duration_s"))), f"seed {_seed(run) or 'not known'}"),
    ]


def _gap(counted: dict[str, Any]) -> list[tuple[str, str, str]]:
    longest = real(counted.get("longest_gap_s"))
    says = "without a publication while records waited, before the epilogue"
    return [] if longest is None else [("longest gap", typeset.seconds(longest), says)]


def _waits(waits: dict[str, Any]) -> list[tuple[str, str, str]]:
    half, most, nearly, longest = (real(waits.get(name)) for name in ("p50", "p90", "p99", "max"))
    if half is None:
        return []
    rest = f"90 %: {typeset.seconds(most)}, 99 %: {typeset.seconds(nearly)}, all: {typeset.seconds(longest)}"
    return [("sent to published", typeset.seconds(half), f"half of the records; {rest}")]


def _by_minute(counted: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Return minute, number of records, and how long they waited, in the order of the table's columns."""
    return [
        (
            typeset.count(whole(row.get("minute"))),
            typeset.count(whole(row.get("n"))),
            [typeset.seconds(real(row.get(name))) for name in ("p50", "p90", "p99", "max")],
        )
        for row in mappings(counted.get("waits_by_minute"))
    ]


def _seed(run: Recording) -> str:
    seed = run.results.get("seed")
    return text(run.manifest.get("seed") if seed is None else seed)


def _oracles(results: dict[str, Any]) -> list[dict[str, Any]]:
    found = [
        {
            "number": whole(oracle.get("number")),
            "name": text(oracle.get("name")) or "unnamed",
            "verdict": _verdict(oracle),
            "says": text(oracle.get("says")),
            "evidence": [text(line) for line in sequence(oracle.get("evidence"))],
        }
        for oracle in mappings(results.get("oracles"))
    ]
    return sorted(found, key=lambda oracle: (oracle["number"] is None, oracle["number"] or 0))


def _epochs(run: Recording, attempts: list[epochs.Attempt]) -> dict[str, Any]:
    published = [attempt for attempt in attempts if attempt.published]
    took = [attempt.took_s for attempt in published]
    recorded = mappings(run.chain.get("epochs"))
    counts = [mapping(epoch.get("counts")) for epoch in recorded]
    if not recorded:
        counts = [dict(attempt.counts) for attempt in epochs.first_publications(attempts)]
    return {
        "seen": len(published),
        "median": typeset.median(took),
        "p95": typeset.quantile(took, 0.95),
        "longest": max(took, default=None),
        "rows": [
            {
                "attempt": attempt,
                "declared": typeset.moment(attempt.declared_at, run.start_ms),
                "took": typeset.seconds(attempt.took_s, 2),
                "why": why,
            }
            for attempt, why in epochs.notable(attempts)
        ],
        "names": epochs.COUNTS,
        "sums": {name: sum(whole(count.get(name)) or 0 for count in counts) for name in epochs.COUNTS},
        "summed": len(counts),
        "source": "the chain" if recorded else "the history",
    }


def _fault_row(number: int, fault: dict[str, Any], start_ms: float) -> dict[str, Any]:
    return {
        "number": number,
        "at": typeset.moment(real(fault.get("injected_at")), start_ms),
        "kind": naming.describe_deed(fault),
        "target": naming.role(text(fault.get("target"))),
        "epoch": typeset.count(whole(fault.get("epoch"))),
        "phase": typeset.words(text(fault.get("phase"))).replace(":", ": ") or typeset.NOT_KNOWN,
        "before": typeset.processes(text(fault.get("process_before")), start_ms),
        "after": typeset.processes(text(fault.get("process_after")), start_ms),
        "recovered": typeset.seconds(real(fault.get("recovered_s")), 2),
        "hit": fault.get("hit") is True,
        "miss": naming.miss(fault),
    }


def _change_row(number: int, change: dict[str, Any]) -> dict[str, Any]:
    why = text(change.get("failed")) or text(change.get("lacks"))
    evidence = [f"{name}: {text(value)}" for name, value in mapping(change.get("evidence")).items()]
    return {
        "number": number,
        "name": text(change.get("name")),
        "says": text(change.get("says")),
        "up": typeset.seconds(real(change.get("up_s"))),
        "away": typeset.seconds(real(change.get("away_s"))),
        "bound": typeset.seconds(real(change.get("bound_s"))),
        "seen": why or "; ".join(evidence),
        "effect": not why,
    }


def _became(fault: dict[str, Any]) -> str:
    return "woke" if text(fault.get("kind")) == "zombie" else "was replaced"


def _refusals(faults: list[dict[str, Any]]) -> list[str]:
    """How drivers ended that had been replaced."""
    return [
        f"fault {number}: the driver that {_became(fault)} ended with {refusal}"
        for number, fault in enumerate(faults, 1)
        if (refusal := text(fault.get("refusal")))
    ]


def _faults_say(faults: list[dict[str, Any]]) -> str:
    if not faults:
        return "No fault is recorded, so this run says nothing about recovery."
    hit = sum(fault.get("hit") is True for fault in faults)
    took = [time for fault in faults if (time := real(fault.get("recovered_s"))) is not None]
    if any(fault.get("kind") in ("sigstop", "stall") for fault in faults):
        became = "another took the place of the process that was struck, or it went on after it had stood still."
    else:
        became = "the process that was struck is gone and another took its place."
    told = f"{hit} of {len(faults)} hit a running epoch: {became}"
    if not took:
        return told
    middle, worst = typeset.seconds(typeset.median(took), 2), typeset.seconds(max(took), 2)
    return f"{told} The next epoch was published {middle} after the fault in the median, {worst} at worst."


def _command(settings: Mapping[str, Any]) -> str:
    """The command that plays such a run, without what is said to it."""
    if suite := text(settings.get("suite")):
        return f"make acceptance SUITE={shlex.quote(suite)}"
    if campaign := text(settings.get("campaign")):
        on = text(settings.get("on")) if campaign == OWN_PIPELINE else campaign
        return f"make chaos{CAMPAIGNS.get(on, '')}"
    return "make demo"


def _commands(run: Recording) -> list[tuple[str, str]]:
    directory = shlex.quote(f"runs/{text(run.manifest.get('run')) or run.name}")
    settings, workload = mapping(run.manifest.get("settings")), mapping(run.manifest.get("workload"))
    words = [_command(settings)]
    words += [
        f"{key.upper()}={shlex.quote(text(settings[key]))}"
        for key in ("faults", "records", "changes")
        if key in settings
    ]
    if settings.get("campaign") == OWN_PIPELINE:
        # Where its folder is, no run directory tells: it is a path of a machine.
        words += ["AT=...", f"JOB={shlex.quote(text(settings.get('job')))}"]
    if workload.get("kind") == "file":
        given = {key: text(settings.get(key)) or text(workload.get(key)) for key in ("input", "key", "time")}
        words += [f"{key.upper()}={shlex.quote(value) if value else '...'}" for key, value in given.items()]
    if seed := _seed(run):
        words.append(f"SEED={shlex.quote(seed)}")
    # What no condition set stands there too, as a default of another type.
    options = [*words_of({name: said for name, said in settings.items() if isinstance(said, str)})]
    if settings.get("campaign") in CAMPAIGNS and not run.manifest.get("controls"):
        options.append("--no-controls")
    if options:
        words.append(f"ARGS={shlex.quote(' '.join(options))}")
    return [
        (" ".join(words), "runs it again: the same records, copies and late arrivals, and the same plan of faults"),
        (f"make check RUN={directory}", "judges this run again from its files alone; no service has to be running"),
    ]


def _tables(run: Recording) -> list[tuple[str, list[tuple[str, str]]]]:
    versions = mapping(run.results.get("versions")) or mapping(run.manifest.get("versions"))
    git = mapping(run.results.get("git")) or mapping(run.manifest.get("git"))
    found = [("Versions", versions), ("Git", git), ("Settings", mapping(run.manifest.get("settings")))]
    return [(name, [(text(key), text(table[key])) for key in sorted(table)]) for name, table in found if table]
