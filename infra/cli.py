"""The operator's command line; wiring only."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.doctor import doctor as examine
from infra.embedded.class_archive import class_archive
from infra.embedded.guard import guarded
from infra.embedded.process import ServerError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.chromium import ensure_chromium
from infra.toolchain.command import ToolchainError
from infra.toolchain.jdk import find_jdk
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from infra.toolchain.wheel import build_wheel

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

RECORDS, KILLS = 200_000, 3
DEMO_JOBS = ("user_counts", "card_ledger", "fraud")
WIDTH = 160
LEAVES_ENGINE = ("up", "images")
"""Commands that may start a container engine, which outlives them."""


@app.command()
def doctor() -> None:
    """Check this machine; exit code 1 when something that the demo needs is missing."""
    from infra.cluster import needs  # noqa: PLC0415
    from infra.cluster.state import state_directory  # noqa: PLC0415

    raise typer.Exit(examine(cache_root(), CHECKOUT, lambda: needs.checks(needs.gather(state_directory()))))


@app.command(name="prepare")
def prepare_command() -> None:
    """Find or build the toolchain of the demo."""
    prepare()


@app.command()
def tools() -> None:
    """Find or build every tool: the demo's, and those of a cluster."""
    from infra.toolchain.crds import resource_definitions  # noqa: PLC0415
    from infra.toolchain.programs import build_all  # noqa: PLC0415

    console = default_console()
    prepare(console)
    cache = Cache(cache_root())
    build_all(cache, console)
    with console.step("custom resource definitions"):
        resource_definitions(cache)


@app.command()
def up(profile: Annotated[str, typer.Option(help="laptop, ci, chaos or brokers.")] = "laptop") -> None:
    """A kind cluster here with the whole platform; goes on where it was interrupted."""
    from infra.cluster.api import Api  # noqa: PLC0415
    from infra.cluster.lifecycle import require_cluster  # noqa: PLC0415
    from infra.operate.addresses import show_addresses  # noqa: PLC0415
    from infra.operate.pulling import told  # noqa: PLC0415

    require_cluster(profile)
    console = default_console()
    lifecycle = _lifecycle(console)
    toolchain = prepare(console)
    with told(lambda: Api(lifecycle.state.kubeconfig, None), None, lambda line: console.say(f"  ✗ {line}")):
        lifecycle.up(toolchain, profile)
    show_addresses(_access(), console_out())
    console.say(
        '✓ up. `make acceptance` proves it, `make status` shows it, `eval "$(make env)"` gives plain kubectl '
        "and pulumi, `make down` removes it"
    )


@app.command()
def down(*, forget: Annotated[bool, typer.Option(help="Give up a state that can no longer be read.")] = False) -> None:
    """Delete the cluster and everything in it, and stop the engine that `up` started."""
    _lifecycle(default_console()).down(forget=forget)


@app.command()
def acceptance(
    suite: Annotated[str, typer.Option(help="smoke (5 kills), all, or jobs: the further jobs.")] = "all",
    seed: Annotated[int | None, typer.Option(min=0, help="What is sent and killed; drawn when left out.")] = None,
    job: Annotated[str | None, typer.Option(help="One of the further jobs; all of them when left out.")] = None,
) -> None:
    """Kill executor pods of the deployed platform, judge the outputs; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.harness.campaigns import acceptance as suites  # noqa: PLC0415
    from tests.harness.campaigns.suites import JOBS, NoSuiteError  # noqa: PLC0415
    from tests.harness.judge.verdict import show  # noqa: PLC0415

    drawn = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    try:
        if suite == JOBS or job is not None:
            from tests.acceptance import jobs  # noqa: PLC0415

            raise typer.Exit(jobs.play(job, drawn, default_console(), console_out()).exit_code)
        results = suites.on_this_machine(suite, drawn, default_console())
    except (NoSuiteError, suites.NotDeployedError) as error:
        raise RefusedError(str(error)) from error
    show(results, console_out())
    raise typer.Exit(results.verdict.exit_code)


@app.command()
def env() -> None:
    """Lines for `eval`: PATH, kubeconfig, Pulumi's backend and passphrase file."""
    from infra.cluster.state import shell_exports  # noqa: PLC0415

    lifecycle = _lifecycle(default_console())
    typer.echo(shell_exports(lifecycle.state.environment(lifecycle.docker_host())), nl=False)


@app.command()
def images(
    push: Annotated[str, typer.Option(help="Registry and path to push to, for example registry.example/team/.")] = "",
    arch: Annotated[str, typer.Option(help="amd64 or arm64; this machine's when left out.")] = "",
    wheel: Annotated[Path | None, typer.Option(help="A wheel of yours, or its folder: it gets an image.")] = None,
) -> None:
    """Build the container images and print their sizes; with PUSH, push them to your registry."""
    from images.wheels import keep  # noqa: PLC0415

    console = default_console()
    lifecycle = _lifecycle(console)
    if wheel is not None:
        cache = Cache(cache_root())
        name = keep(cache, build_wheel(cache, wheel).path if wheel.is_dir() else wheel).name
        console.say(f"  {name} gets an image; `pulumi config set --path pipelines.NAME.wheel {name}` has it run")
    lifecycle.show_images(prepare(console), push, arch)


@app.command()
def status() -> None:
    """Each component: ready, or why not; exit code 1 when one is not."""
    from infra.operate.status import status as show  # noqa: PLC0415

    raise typer.Exit(show(_access(assume=True), console_out()))


@app.command(name="open")
def open_command(*, forward: Annotated[bool, typer.Option(help="Hold port forwards until Ctrl-C.")] = False) -> None:
    """Addresses of Spark UI, history server, MinIO console, Kafka."""
    from infra.operate.addresses import show_addresses  # noqa: PLC0415

    raise typer.Exit(show_addresses(_access(), console_out(), forward=forward))


@app.command()
def logs(
    *,
    pipeline: Annotated[str | None, typer.Option(help="Driver and executors of this pipeline.")] = None,
    component: Annotated[str | None, typer.Option(help="kafka, minio, postgres, spark-operator, ...")] = None,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C.")] = True,
) -> None:
    """Logs of a pipeline or a component, merged."""
    from infra.operate.logs import follow_logs  # noqa: PLC0415

    raise typer.Exit(
        follow_logs(_access(assume=True), sys.stdout, pipeline=pipeline, component=component, follow=follow)
    )


@app.command()
def bundle() -> None:
    """Events, objects and logs in one archive below runs/, secrets taken out."""
    from infra.operate.bundle import bundle as write  # noqa: PLC0415

    typer.echo(write(_access(assume=True), CHECKOUT / "runs", default_console().say))


@app.command()
def schema() -> None:
    """Write values.schema.json and values.yaml of every chart from the models."""
    from infra.values.__main__ import main as generate  # noqa: PLC0415

    raise typer.Exit(generate([]))


def _lifecycle(console: Any) -> Any:
    from infra.cluster.lifecycle import Lifecycle  # noqa: PLC0415 - brings Kubernetes and Pulumi packages

    return Lifecycle.here(console)


def _access(*, assume: bool = False) -> Any:
    from infra.cluster.access import load_access  # noqa: PLC0415
    from infra.cluster.state import state_directory  # noqa: PLC0415

    state = state_directory()
    return load_access(state.process_environment(), state.root, assume=assume)


@app.command()
def demo(
    *,
    seed: Annotated[
        int | None, typer.Option(min=0, help="What is sent and killed; drawn and printed when left out.")
    ] = None,
    job: Annotated[
        str, typer.Option(help="user_counts; card_ledger: ways to call a service; fraud: decisions by a deadline.")
    ] = "user_counts",
    records: Annotated[int | None, typer.Option(min=1_000, help="Records of the seeded stream.")] = None,
    kills: Annotated[int, typer.Option(min=1, help="How many; of several one is of another role.")] = KILLS,
    input: Annotated[Path | None, typer.Option(help="Your own events: .csv, .jsonl or .parquet.")] = None,  # noqa: A002
    key: Annotated[str | None, typer.Option(help="Column of INPUT to count by.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of INPUT that holds the event time.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="fraud: transactions a second.")] = None,
    store_down_s: Annotated[int | None, typer.Option(min=1, help="fraud: how long the killed store is away.")] = None,
    held_max: Annotated[int | None, typer.Option(min=10, help="fraud: held meanwhile before no more is read.")] = None,
) -> None:
    """Broker, object store and Spark here, executors and more killed, a verdict; exit 0 pass, 1 fail, 2 unknown."""
    from tests.harness import subject  # noqa: PLC0415 - commands that need less start sooner
    from tests.harness.campaigns.demo import Demo  # noqa: PLC0415
    from tests.harness.judge.verdict import show  # noqa: PLC0415
    from tests.harness.workload.errors import InputError  # noqa: PLC0415

    if job not in DEMO_JOBS:
        raise RefusedError(f"there is no job {job!r}; there are: {', '.join(DEMO_JOBS)}")
    of_fraud = {"rate": rate, "store_down_s": store_down_s, "held_max": held_max}
    if job != "fraud" and (given := [name for name, value in of_fraud.items() if value is not None]):
        raise RefusedError(f"--{given[0].replace('_', '-')} is for fraud, not for {job}")
    if input is not None and job != "user_counts":
        raise RefusedError(f"INPUT is for user_counts: {job} sends transactions of its own")
    if input is None and (key or time):
        raise RefusedError("KEY and TIME name columns of a file: give INPUT as well")
    if input is not None and records is not None:
        raise RefusedError("--records is of the seeded stream: with INPUT every row of the file is sent")
    console = default_console()
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    if job == "fraud":
        raise typer.Exit(_fraud(seed, console, records=records, kills=kills, **of_fraud))
    if job == "card_ledger":
        raise typer.Exit(_cards(seed, console, records, kills))
    try:
        what = subject.from_file(input, key or "", time or "") if input else subject.seeded(seed, records or RECORDS)
    except InputError as error:
        raise RefusedError(str(error)) from error
    toolchain = prepare(console)
    archive = class_archive(toolchain, console)
    results = Demo(CHECKOUT, toolchain, what, seed, kills, console, archive).run()
    show(results, console_out())
    raise typer.Exit(results.verdict.exit_code)


def _cards(seed: int, console: Any, records: int | None, kills: int) -> int:
    from tests.harness.cards.demo import CARD_RECORDS, CardDemo  # noqa: PLC0415
    from tests.harness.cards.scene import on_embedded  # noqa: PLC0415
    from tests.harness.cards.show import show  # noqa: PLC0415

    scene = partial(on_embedded, console)
    results = CardDemo(CHECKOUT, "embedded", scene, seed, console, records or CARD_RECORDS, kills).run()
    show(results, console_out())
    return int(results.verdict.exit_code)


def _fraud(seed: int, console: Any, **sizes: int | None) -> int:
    from tests.harness.fraud.demo import FraudDemo  # noqa: PLC0415
    from tests.harness.fraud.page import text  # noqa: PLC0415
    from tests.harness.fraud.plan import STORE_DOWN_S  # noqa: PLC0415
    from tests.harness.fraud.scene import on_embedded  # noqa: PLC0415

    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    down_s = given.get("store_down_s", STORE_DOWN_S)
    # A run that is about the store's absence leaves out what is measured beside the job.
    scene, triggers = partial(on_embedded, console, down_s), down_s == STORE_DOWN_S
    results = FraudDemo(CHECKOUT, "embedded", scene, seed, console, triggers=triggers, **given).run()
    typer.echo(text(results), nl=False)
    return int(results.verdict.exit_code)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def chaos(
    context: typer.Context, on: Annotated[str, typer.Option(help="embedded, or cluster: that of `up`.")] = "embedded"
) -> None:
    """Strike every role of the embedded stack or of the cluster, judge the outputs; exit 0 pass, 1 fail, 2 unknown."""
    words = {word.partition("=")[0] for word in context.args}
    if {"--key", "--time"} & words and "--input" not in words:
        raise RefusedError("KEY and TIME name columns of a file: give INPUT as well")
    own = {"--at", "--job", "--input"} & words
    if own and on != "embedded":
        raise RefusedError("a pipeline of yours is struck on the embedded stack: leave ON= out")
    if own:
        from tests.harness.own.pipeline import main as campaign  # noqa: PLC0415
    elif on == "embedded":
        from tests.harness.campaigns.chaos import main as campaign  # noqa: PLC0415
    elif on == "cluster":
        from tests.harness.campaigns.cluster_chaos import main as campaign  # noqa: PLC0415
    else:
        raise RefusedError(f"there is no stack {on!r} to strike; there are: embedded, cluster")
    raise typer.Exit(campaign(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def soak(context: typer.Context) -> None:
    """A campaign of hours in parts, resumable; exit 0 pass, 1 fail, 2 unknown or not all of it run."""
    from tests.harness.soak.__main__ import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def compare(context: typer.Context) -> None:
    """System usage under four semantics, same records and kills; exit 0 signs hold, 1 one does not, 2 not shown."""
    from tests.compare.run import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(
    name="two-ways",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def two_ways(context: typer.Context) -> None:
    """Snapshots and dedup per operator under the same kills; exit 0 both exact, 1 an output wrong, 2 not shown."""
    from tests.twoways.run import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def reconcile(context: typer.Context) -> None:
    """Two streams under the same kills against a batch run of one topic; exit 0 as promised, 1 not, 2 not shown."""
    from tests.reconcile.run import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(name="new-pipeline")
def new_pipeline_command(
    name: Annotated[str, typer.Option(help="Of the pipeline, and of its Python package.")],
    at: Annotated[Path | None, typer.Option(help="The folder; ./NAME when left out.")] = None,
) -> None:
    """A folder with a pipeline of your own: declaration, tests, settings, README."""
    from infra.new_pipeline import new_pipeline  # noqa: PLC0415

    typer.echo("\n".join(new_pipeline(name, at)))


@app.command(name="run")
def run_command(
    at: Annotated[Path | None, typer.Option(help="A folder as `new-pipeline` makes it.")] = None,
    job: Annotated[str | None, typer.Option(help="module or module:name; the settings' when left out.")] = None,
) -> None:
    """A declared pipeline with broker, object store and Spark here, until Ctrl-C; then exit code 0."""
    from infra.embedded.job import Job  # noqa: PLC0415
    from infra.embedded.run import Run  # noqa: PLC0415

    if at is None and job is None:
        raise RefusedError("name the folder of a pipeline (AT=), or a job of the library (JOB=)")
    console, cache = default_console(), Cache(cache_root())
    toolchain = prepare(console)
    what = Job.at(at, job, cache) if at else Job.named(job or "")
    archive = class_archive(toolchain, console)
    Run.here(what, toolchain, console, archive).go()


@app.command()
def check(
    run: Annotated[Path, typer.Option(help="The run directory, or a run of docs/evidence.")] = Path("runs/latest"),
    out: Annotated[
        Path | None, typer.Option(help="Write there what is judged, and the results; left out: into the run directory.")
    ] = None,
) -> None:
    """Judge a run of any kind again from its files; exit code 0 pass, 1 fail, 2 unknown."""
    from tests.harness.judge.again import RejudgeError, differences, is_packed, place_to_judge  # noqa: PLC0415
    from tests.harness.pack.archive import PackError  # noqa: PLC0415

    try:
        with place_to_judge(run, out) as place:
            code = _judge_again(place)
            differ = differences(run, place) if is_packed(run) else []
    except (RejudgeError, PackError) as error:
        typer.echo(f"✗ {error}", err=True)
        raise typer.Exit(2) from None
    if is_packed(run):
        typer.echo("\n".join([f"✗ {one}" for one in differ] or [f"✓ as {run / 'results.json'} says"]), err=bool(differ))
    raise typer.Exit(code or (2 if differ else 0))


def _judge_again(run: Path) -> int:
    """Judge a run directory of any kind, and write into it what comes of it; the exit code."""
    from tests.arms.judges import judge_of  # noqa: PLC0415
    from tests.harness import report  # noqa: PLC0415
    from tests.harness.judge import own as own_judge  # noqa: PLC0415
    from tests.harness.judge import verdict as judge  # noqa: PLC0415
    from tests.harness.report import index  # noqa: PLC0415
    from tests.second_judge.program import ask  # noqa: PLC0415

    if (run / "ways").is_dir():
        from tests.harness.cards.judge import main as of_cards  # noqa: PLC0415

        return of_cards([str(run)])
    if (its_own := judge_of(run)) is not None:
        return its_own([str(run)])
    results = own_judge.judge(run) if own_judge.is_own(run) else judge.judge(run, second=ask)
    report.write(run)
    if (folder := run.resolve().parent).name == "runs":
        index.write(folder)
    judge.show(results, console_out())
    return results.verdict.exit_code


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def report(context: typer.Context) -> None:
    """Draw a run's page, the index of runs, or the sum of a campaign that was run in parts."""
    from tests.harness.report.__main__ import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command()
def lint() -> None:
    """Linters, types, layers."""
    steps = {
        "ruff check": ["ruff", "check", "."],
        "ruff format": ["ruff", "format", "--check", "."],
        "mypy": ["mypy"],
        "layers": ["lint-imports"],
    }
    console = default_console()
    failed = []
    for name, (tool, *words) in steps.items():
        with console.step(name):
            done = _tool(tool, *words, capture=True)
        if done.returncode:
            failed.append(name)
            typer.echo(done.stdout + done.stderr)
    raise typer.Exit(1 if failed else 0)


class Extent(StrEnum):
    """How many of the tests."""

    QUICK = "quick"
    CORE = "core"
    ALL = "all"


WHICH = {
    Extent.QUICK: ["-m", "not slow and (quick or not (spark or stack))"],
    Extent.CORE: ["-m", "not slow and (core or not spark)"],
    Extent.ALL: [],
}
"""Words of pytest. The marks are explained in pyproject.toml; a test of Spark that has none is left to `all`."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(
    context: typer.Context,
    extent: Annotated[Extent, typer.Option(help="quick, core: what guards the protocol too, all")] = Extent.QUICK,
    at: Annotated[Path | None, typer.Option(help="A folder as `new-pipeline` makes it: its tests instead.")] = None,
) -> None:
    """Tests that need no cluster."""
    if at is not None:
        raise typer.Exit(_tests_of(at, context.args))
    console = default_console()
    prepare(console)
    if extent is Extent.ALL:
        with console.step("Chromium for the tests of pages"):
            try:
                ensure_chromium(Cache(cache_root()))
            except ToolchainError as error:
                console.say(f"… left out: {error}")
    words = ["-m", "pytest", "--durations=30", "-n", "2", *WHICH[extent], *context.args]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    done = subprocess.run([sys.executable, *words], cwd=CHECKOUT, env=environment, check=False)
    raise typer.Exit(done.returncode)


def _tests_of(folder: Path, words: list[str]) -> int:
    """Run the tests of a pipeline of the user's, with the library of this checkout."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT / "pipelines" / "src"),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(find_jdk().java.parent.parent),
    }
    try:
        done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=folder, env=environment, check=False)
    except OSError as error:
        raise RefusedError(f"AT={folder}: {error.strerror}; `make new-pipeline` makes such a folder") from error
    return done.returncode


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def planted(context: typer.Context) -> None:
    """Bugs planted in a copy of the product, one at a time; exit 0 all are caught, 1 one is not, 2 nothing to say."""
    from tests.planted.run import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def mutants(context: typer.Context) -> None:
    """Mechanical mutants of the core, by module; exit 0 enough are killed, 1 too few, 2 nothing to say."""
    from tests.mutants.run import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def tampered(context: typer.Context) -> None:
    """Alterations of a run's evidence, one at a time; exit 0 all are caught, 1 one is not, 2 nothing to say."""
    from tests.tampered.run import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(context: typer.Context, case: Annotated[str, typer.Option(help="Which measurement.")] = "quick") -> None:
    """Measure; tables of ratios, raw samples and figures below runs/bench. Without a case: a quarter of an hour."""
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    words = [sys.executable, "-m", "tests.bench", case, *context.args]
    raise typer.Exit(subprocess.run(words, cwd=CHECKOUT, env=environment, check=False).returncode)


@app.command()
def lock() -> None:
    """Write requirements.lock anew from requirements.in, and that of the images, which follows it."""
    compile_, images = ("uv", "pip", "compile", "--quiet", "--generate-hashes"), "images/deps/"
    with default_console().step("lock"):
        done = _tool(
            *compile_,
            "--universal",
            "--python-version",
            "3.11",
            "requirements.in",
            "--output-file",
            "requirements.lock",
            capture=False,
        )
        if done.returncode == 0:
            done = _tool(
                *compile_,
                "--no-annotate",
                "--custom-compile-command",
                "make lock",
                "--python-version",
                "3.11",
                "--python-platform",
                "linux",
                "--constraint",
                "requirements.lock",
                f"{images}requirements.in",
                "--output-file",
                f"{images}requirements.lock",
                capture=False,
            )
    raise typer.Exit(done.returncode)


class RefusedError(Exception):
    """The command line asks for something that is not to be had; the message says what is."""


def console_out() -> Any:
    """A rich console on standard output, wide where no terminal says how wide it is: in a file nothing is cut."""
    from rich.console import Console  # noqa: PLC0415

    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)


def _tool(name: str, *words: str, capture: bool) -> subprocess.CompletedProcess[str]:
    """A tool of this environment, run in the checkout."""
    tool = Path(sys.executable).with_name(name)
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'pipelines' / 'src'}"}
    return subprocess.run([tool, *words], cwd=CHECKOUT, env=environment, capture_output=capture, text=True, check=False)


def run() -> int:
    """Run the command that the arguments name; errors that a user can act on are one line."""
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except _expected_errors() as error:
        typer.echo(f"✗ {error}", err=True)
        return 1
    except KeyboardInterrupt:
        typer.echo("✗ interrupted; everything that was started has been stopped", err=True)
        return 130
    return 0


def _expected_errors() -> tuple[type[Exception], ...]:
    # Those of modules that commands import late cannot have happened before.
    places = {
        "infra.cluster.engine": "EngineError",
        "infra.cluster.state": "StateError",
        "infra.cluster.pulumi": "PulumiError",
        "infra.cluster.api": "ClusterError",
        "infra.new_pipeline": "NewPipelineError",
        "infra.embedded.job": "RunError",
        "images.wheels": "WheelError",
    }
    late = (getattr(sys.modules[module], name) for module, name in places.items() if module in sys.modules)
    return (ToolchainError, ServerError, RefusedError, *late)


def main() -> int:
    """Run guarded: whichever way this ends, no process is left behind; but for an engine that is to stay."""
    return run() if sys.argv[1:2] and sys.argv[1] in LEAVES_ENGINE else guarded(run)


if __name__ == "__main__":
    sys.exit(main())
