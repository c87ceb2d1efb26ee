"""A run judged again: where its judge may write, and whether it says what the kept results say."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from infra.errors import UserError
from tests.harness.pack.archive import SUFFIX, Pack, is_packed, name_of, unpack
from tests.harness.pack.files import RESULTS

EVIDENCE = Path(__file__).resolve().parents[3] / "docs" / "evidence"
TEXTS = frozenset({"says", "evidence", "reasons", "bounds_say"})
"""Members of the results that are words for people, and where they found what they say."""


class RejudgeError(UserError):
    """A run cannot be judged again; the message says why, and nothing was written."""


@contextmanager
def place_to_judge(run: Path, out: Path | None = None) -> Iterator[Path]:
    """Give the folder in which a run is judged: its own, or `out`. What a pack holds is unpacked, and removed again.

    Args:
        run: a run directory, or a kept run.
        out: gets what is judged, with the results.

    Raises:
        RejudgeError: it is no run, or one of which too little is kept, or `out` holds something.
        PackError: the pack is damaged, or of other code.
    """
    if not is_packed(run) and run.resolve().is_relative_to(EVIDENCE):
        raise RejudgeError(
            f"{run} cannot be judged again: what was sent and read is only in files that end in {SUFFIX}, name one; "
            "nothing was written"
        )
    if not is_packed(run) and not run.is_dir():
        raise RejudgeError(f"there is no run directory {run}; `make demo` makes one")
    if out is not None and out.exists() and any(out.iterdir()):
        raise RejudgeError(f"{out} holds something: name a folder that is empty or not there; nothing was written")
    if out is not None and out.resolve().is_relative_to(run.resolve()):
        raise RejudgeError(f"{out} is in what is judged: name a folder elsewhere; nothing was written")
    if is_packed(run):
        with TemporaryDirectory(prefix="effectively-once-check-") as temporary:
            # The page names the run by its folder.
            to = out or Path(temporary) / name_of(run)
            to.mkdir(parents=True, exist_ok=True)
            unpack(run, to)
            yield to
    elif out is not None:
        yield Path(shutil.copytree(run, out, ignore=shutil.ignore_patterns("logs"), dirs_exist_ok=True))
    else:
        yield run


def differences(kept: Path, judged: Path) -> list[str]:
    """What the results in a kept run say, and the judge does not.

    Args:
        kept: the kept run.
        judged: where it was judged again.

    Raises:
        PackError: the pack is damaged.
    """
    try:
        before = orjson.loads(Pack.of(kept).members[RESULTS])
    except (KeyError, orjson.JSONDecodeError) as error:
        return [f"the kept {RESULTS} cannot be read ({error})"]
    if not isinstance(before, dict) or "verdict" not in before:
        return [f"the kept {RESULTS} holds no verdict"]
    return list(_differences(before, orjson.loads((judged / RESULTS).read_bytes()), ""))


def _differences(kept: Any, now: Any, at: str) -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(now, dict):
        # A later judge may say more. What was said has to be said again.
        for name in kept.keys() - TEXTS:
            yield from _differences(kept[name], now.get(name), f"{at}.{name}".removeprefix("."))
    elif isinstance(kept, list) and isinstance(now, list):
        named = [{one["name"]: one for one in of if isinstance(one, dict) and "name" in one} for of in (kept, now)]
        if kept and len(named[0]) == len(kept):
            yield from _differences(named[0], named[1], at)
        elif len(kept) != len(now):
            yield f"{at}: {len(kept)} were kept, now there are {len(now)}"
        else:
            for number, (one, other) in enumerate(zip(kept, now, strict=True)):
                yield from _differences(one, other, f"{at}.{number}")
    elif kept != now:
        yield f"{at} was {kept!r}, and is {now!r} now"
