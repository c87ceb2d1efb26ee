"""`python -m tests.harness.report`: draw the page of a run again, the index of runs, or the sum of a campaign.

    report RUN                          the page of a run directory
    report index [RUNS]                 index.html of runs/ or another directory
    report campaign DIR... [--to DIR]   one page and results.json that add up run directories

Exit code: 0, or that of the campaign's verdict (1 fail, 2 unknown); 2 when what was named is not there.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.harness import report
from tests.harness.report import campaign, index

RUNS, SUM = Path("runs"), Path("runs/campaign")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    word = given[0] if given else ""
    try:
        if word == "index":
            return _index(given[1:])
        if word == "campaign":
            return _campaign(given[1:])
        return _run(given)
    except (FileNotFoundError, campaign.CampaignError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2


def _run(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.report", description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, nargs="?", default=RUNS / "latest", help="run directory (%(default)s)")
    page = report.write(parser.parse_args(given).run)
    sys.stdout.write(f"{page}\n")
    return 0


def _index(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.report index")
    parser.add_argument("runs", type=Path, nargs="?", default=RUNS, help="holds run directories (%(default)s)")
    sys.stdout.write(f"{index.write(parser.parse_args(given).runs)}\n")
    return 0


def _campaign(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.report campaign")
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run directory")
    parser.add_argument("--to", type=Path, default=SUM, metavar="DIR", help="where the sum goes (%(default)s)")
    options = parser.parse_args(given)
    results, page = campaign.write(options.runs, options.to)
    hits = sum(one.hits for one in results.recovery)
    sys.stdout.write(
        f"{results.verdict}: {len(results.parts)} runs, {hits} faults hit, {results.violations} violations\n{page}\n"
    )
    return results.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
