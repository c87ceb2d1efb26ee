"""`python -m tests.harness.report`: draw the page of a run again, the index of runs, or the sum of a campaign.

    report RUN                          the page of a run directory; of a kept run, or of all in a folder, beside it
    report index [RUNS] [--kept]        index.html of runs/ or another directory, as docs/evidence --kept
    report campaign DIR... [--to DIR]   one page and results.json that add up run directories
    report evidence DIR... --to DIR     what the repository keeps of run directories, or of a sum of them

Exit code: 0, or that of the campaign's verdict (1 fail, 2 unknown); 2 when what was named is not there.
"""

import argparse
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.harness import report
from tests.harness.pack.archive import PackError, is_packed
from tests.harness.report import campaign, index, kept, packing
from tests.harness.report.packing import Private

RUNS, SUM = Path("runs"), Path("runs/campaign")
CHECKOUT = Path(__file__).resolve().parents[3]
EVIDENCE = CHECKOUT / "docs" / "evidence"
INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "GOPROXY", "npm_config_registry")
"""Settings that name registries of this machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    word = given[0] if given else ""
    try:
        if word == "index":
            return _index(given[1:])
        if word == "campaign":
            return _campaign(given[1:])
        if word == "evidence":
            return _evidence(given[1:])
        return _run(given)
    except (FileNotFoundError, PackError, campaign.CampaignError, packing.PackingError) as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2


def _run(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.report", description=__doc__.partition("\n")[0])
    help_ = "run, or a folder of kept ones (%(default)s)"
    parser.add_argument("run", type=Path, nargs="?", default=RUNS / "latest", help=help_)
    run: Path = parser.parse_args(given).run
    if is_packed(run):
        pages: Iterable[Path] = (kept.draw(run),)
    elif kept.is_folder_of_kept(run):
        pages = kept.draw_all(run)
    else:
        pages = (report.write(run),)
    for page in pages:
        sys.stdout.write(f"{page}\n")
    return 0


def _index(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.report index")
    parser.add_argument("runs", type=Path, nargs="?", default=RUNS, help="holds run directories (%(default)s)")
    parser.add_argument("--kept", action="store_true", help="of evidence: also what folders of runs in it hold")
    options = parser.parse_args(given)
    sys.stdout.write(f"{index.write(options.runs, kept=options.kept)}\n")
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


def _evidence(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.report evidence")
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run directory, or the sum of some")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="where the evidence goes")
    parser.add_argument("--any-verdict", action="store_true", help="also runs that did not pass")
    options = parser.parse_args(given)
    results, size = packing.pack(
        options.runs, options.to, list(private(os.environ)), checkout=CHECKOUT, any_verdict=options.any_verdict
    )
    if options.to.resolve().parent == EVIDENCE:
        index.write(EVIDENCE, kept=True)
    sys.stdout.write(
        f"{results.verdict}: {len(results.parts)} runs, {size / 1e6:.1f} MB\n{options.to / 'report.html'}\n"
    )
    return 0


def private(environment: Mapping[str, str]) -> Iterator[Private]:
    """What of this machine no published file may hold: paths, its names, the registries that it is set to."""
    for what, path in (("the checkout's path", CHECKOUT), ("the home directory", Path.home())):
        if path != Path("/"):
            yield Private(what, str(path))
    for name in sorted({socket.gethostname(), socket.getfqdn()} - {"", "localhost"}):
        yield Private("a name of this machine", name, word=True)
    for setting in INDEXES:
        for address in environment.get(setting, "").replace("|", ",").replace(" ", ",").split(","):
            if host := urlsplit(address).hostname:
                yield Private(f"a host of {setting}", host, word=True)


if __name__ == "__main__":
    sys.exit(main())
