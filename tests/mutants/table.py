"""The scores as a table, and below it each survivor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from infra.toolchain.prepare import CHECKOUT
from tests.harness.commit import git_state
from tests.mutants.explained import Explanation
from tests.mutants.score import LEAST, Score
from tests.planted.state import product_digest, product_stated

HEAD = "| module | mutants | killed | by time | survived | equivalent | score | spared | s |\n" + "|---" * 9 + "|"


def markdown(scores: Sequence[Score], explanations: Sequence[Explanation], product: str) -> str:
    """Return the page, with a sentence on the product."""
    lines = [
        "# Mutants of the product's core",
        "",
        "Score: killed, of the mutants that are not equivalent. Spared: mutants of the wording of errors, not played. "
        + product,
        "",
        HEAD,
        *map(_row, scores),
        *_survivors(scores),
        *_equivalents(scores, explanations),
    ]
    return "\n".join(lines) + "\n"


def write(scores: Sequence[Score], explanations: Sequence[Explanation], at: Path) -> Path:
    """Write `scores.md` and `scores.json`; return the first."""
    at.mkdir(parents=True, exist_ok=True)
    told = {
        "digest": product_digest(),
        **git_state(CHECKOUT),
        "least": LEAST,
        "modules": [
            {**one.model_dump(), "survived": len(one.survivors), "score": round(one.share, 4)} for one in scores
        ],
    }
    (at / "scores.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    (at / "scores.md").write_text(markdown(scores, explanations, product_stated()))
    return at / "scores.md"


def percent(score: Score) -> str:
    """Return a score in per cent; one below the least is never rounded up to it."""
    return f"{int(score.share * 1000) / 10} %"


def _row(one: Score) -> str:
    share = percent(one) if one.share >= LEAST else f"**{percent(one)}**"
    cells = (
        one.module,
        one.made,
        one.killed,
        one.by_time,
        len(one.survivors),
        one.equivalent,
        share,
        one.spared,
        f"{one.seconds:.0f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _survivors(scores: Sequence[Score]) -> Iterator[str]:
    for score in scores:
        for said in score.wrong:
            yield f"\n**{said}**"
        if score.survivors:
            yield f"\n## Survivors of {score.module}"
        for number, mutant in enumerate(score.survivors, start=1):
            why = "no test calls the function" if mutant.end == "untested" else "all tests pass"
            yield f"\n{number}. `{mutant.function}`, {why}\n\n```diff\n{mutant.diff}\n```"


def _equivalents(scores: Sequence[Score], explanations: Sequence[Explanation]) -> Iterator[str]:
    shown = {score.module for score in scores}
    own = [one for one in explanations if one.module in shown]
    if own:
        yield "\n## Equivalent\n\n| function | instead of | stands | which changes nothing |\n|---|---|---|---|"
    for one in own:
        new = "<br>".join(map(_code, one.new))
        cells = (f"`{one.function}`", _code(one.old), new, " ".join(one.why.split()))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    return " ".join(f"`{line}`" for line in text.splitlines()) or "(nothing)"
