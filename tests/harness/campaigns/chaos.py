"""`make chaos`: a pipeline on either stack under every fault of a plan that a seed draws, and the judge's verdict.

`python -m tests.harness.campaigns.chaos --seed 1` runs it and exits with 0 pass, 1 fail, 2 unknown; `--plan` prints
the plan. With `--at FOLDER --input FILE --key COLUMN --time COLUMN` the pipeline is one that its author defined.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

from rich.console import Console as Terminal

from infra.embedded.guard import report_interrupt, run_guarded
from infra.options import ask
from tests.harness.campaigns import cluster, embedded
from tests.harness.campaigns.options import Campaign
from tests.harness.judge.verdict import show

UNDONE = {
    "embedded": "every fault is undone, everything that was started has been stopped",
    "cluster": "every fault is undone, and the run's objects are deleted",
}
"""What is so, whichever way it ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    return ask(Campaign, play, arguments, name="chaos")


def play(asked: Campaign) -> int:
    """Run a campaign with its seed, or one that is drawn; returns the exit code.

    Raises:
        UserError: it cannot be run; the message says what to do.
    """
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    try:
        run = embedded.run if asked.on == "embedded" else cluster.run
        results = run(seed, asked)
    except (KeyboardInterrupt, SystemExit) as end:
        return report_interrupt(end, UNDONE[asked.on])
    if results is None:
        return 0
    show(results, Terminal(highlight=False, soft_wrap=True))
    return results.verdict.exit_code


if __name__ == "__main__":
    sys.exit(run_guarded(main))
