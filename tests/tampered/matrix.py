"""The matrix: of each file and operation how many alterations, which oracles caught them, and which are harmless."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT
from tests.harness.commit import describe_commit, git_state
from tests.tampered.harmless import HARMLESS, Harmless
from tests.tampered.trial import Tried

HEAD = "| file | operation | altered | caught | by | harmless | lost |\n|---|---|---|---|---|---|---|"


def stale(tried: Sequence[Tried]) -> list[Harmless]:
    """Return the entries of which each alteration was caught."""
    passed = {one.harmless for one in tried if not one.objecting}
    met = {one.harmless for one in tried}
    return [one for one in HARMLESS if one in met and one not in passed]


def markdown(tried: Sequence[Tried], planned: str) -> str:
    """Return the page; what was lost comes first.

    Args:
        tried: all alterations.
        planned: the options of the plan that they are of.

    """
    lost = [one for one in tried if one.lost]
    caught, harmless = sum(one.caught for one in tried), sum(not one.caught and not one.lost for one in tried)
    lines = [
        "# Evidence that was tampered with",
        "",
        f"{len(tried)} alterations of three runs (`{planned}`): {caught} were caught, {harmless} passed and are listed "
        f"as harmless, {len(lost)} are lost. {sum(not one.alteration.bound for one in tried)} were not bound anew. "
        f"The judge is the one {describe_commit(CHECKOUT)}.",
        "",
    ]
    lines += [
        f"- **lost**: {one.alteration} ({_heard(one)}; `{planned} --number {one.alteration.number}`)" for one in lost
    ]
    lines += ["", HEAD]
    groups: dict[tuple[str, str], list[Tried]] = {}
    for one in tried:
        groups.setdefault((_file(one), one.alteration.operation), []).append(one)
    lines += [_row(*group, of_group) for group, of_group in sorted(groups.items())]
    lines += ["", "## Harmless", "", "| what | why | passed | caught |", "|---|---|---|---|"]
    for entry in HARMLESS:
        mine = [one for one in tried if one.harmless == entry]
        passed = sum(not one.objecting for one in mine)
        lines.append(f"| `{str(entry).replace('|', ', ')}` | {entry.why} | {passed} | {len(mine) - passed} |")
    return "\n".join(lines) + "\n"


def write(tried: Sequence[Tried], planned: str, at: Path) -> Path:
    """Write `matrix.md` and `matrix.json`; return the first."""
    at.mkdir(parents=True, exist_ok=True)
    told = {
        "planned": planned,
        **git_state(CHECKOUT),
        "altered": len(tried),
        "lost": [one.alteration.number for one in tried if one.lost],
        "alterations": [
            {
                "what": str(one.alteration),
                "objecting": one.objecting,
                "lost": one.lost,
                "harmless": one.harmless and one.harmless.why,
                "says": one.says[:200],
            }
            for one in tried
        ],
    }
    (at / "matrix.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    (at / "matrix.md").write_text(markdown(tried, planned))
    return at / "matrix.md"


def _file(one: Tried) -> str:
    """Name the file of an alteration, the same of all controls."""
    first, *rest = Path(one.alteration.file).parts
    return str(Path(first, "*", *rest[1:])) if first == "controls" else one.alteration.file


def _heard(one: Tried) -> str:
    if not one.objecting:
        return "nobody objected"
    return f"{', '.join(one.objecting)} objected, due is one of {', '.join(one.due)}: {one.says[:120]}"


def _row(file: str, operation: str, tried: Sequence[Tried]) -> str:
    by = Counter(oracle for one in tried for oracle in one.objecting)
    named = ", ".join(f"{oracle} {count}" for oracle, count in by.most_common())
    harmless = sum(not one.caught and not one.lost for one in tried)
    caught, lost = sum(one.caught for one in tried), sum(one.lost for one in tried)
    cells = (file, operation, len(tried), caught, named, harmless, lost)
    return "| " + " | ".join(map(str, cells)) + " |"
