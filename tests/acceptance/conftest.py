"""One acceptance run for all claims: that of EFFECTIVELY_ONCE_RUN, or one that is made when a suite is asked for.

`EFFECTIVELY_ONCE_ACCEPTANCE=smoke pytest tests/acceptance` runs the suite on the cluster of this machine; with
`EFFECTIVELY_ONCE_RUN=runs/<run id>` a recorded run is judged. Without either these tests are not selected.
The suite `jobs` is that of the files `test_job_*.py`, and of no others.
"""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path

import pytest

from tests.acceptance.jobs import Played
from tests.harness.campaigns.suites import JOBS
from tests.harness.judge import verdict as judge
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory

RUN, SUITE, SEED = "EFFECTIVELY_ONCE_RUN", "EFFECTIVELY_ONCE_ACCEPTANCE", "EFFECTIVELY_ONCE_SEED"
HERE = Path(__file__).parent
LONGEST_S = 1800


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "acceptance: judges a run on a cluster")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the claims out unless a run is there or asked for; the first of them waits for the whole run."""
    mine = [item for item in items if HERE in item.path.parents]
    jobs = os.environ.get(SUITE) == JOBS
    others = [item for item in mine if item.path.name.startswith("test_job_") is not jobs]
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)
    mine = [item for item in mine if item not in others]
    if not os.environ.get(RUN) and not os.environ.get(SUITE):
        items[:] = [item for item in items if item not in mine]
        config.hook.pytest_deselected(items=mine)
        return
    for item in mine:
        item.add_marker(pytest.mark.acceptance)
        item.add_marker(pytest.mark.timeout(LONGEST_S))


@pytest.fixture(scope="session")
def recorded() -> RunDirectory:
    """Return the run directory that is judged."""
    if not os.environ.get(RUN):
        from infra.toolchain.prepare import default_console  # noqa: PLC0415 - judging a recorded run needs no tools
        from tests.harness.campaigns.acceptance import on_this_machine  # noqa: PLC0415

        on_this_machine(os.environ[SUITE], _seed(), default_console())
        return RunDirectory(Path("runs/latest").resolve())
    return RunDirectory(Path(os.environ[RUN]))


@pytest.fixture(scope="session")
def results(recorded: RunDirectory) -> Results:
    """Return the verdict, recomputed from the recorded files."""
    assert recorded.path.is_dir(), f"there is no run directory {recorded.path}"
    return judge.judge(recorded.path, write=False)


@pytest.fixture(scope="session")
def played() -> Played:
    """Play example jobs on the cluster, each once; gives what came of one by its name."""
    from infra.toolchain.prepare import default_console  # noqa: PLC0415 - judging a recorded run needs no tools
    from tests.acceptance.jobs import player  # noqa: PLC0415

    return cache(lambda job: player(job).on_this_machine(_seed(), default_console()))


def _seed() -> int:
    return int(os.environ.get(SEED) or random.SystemRandom().randrange(1_000_000))
