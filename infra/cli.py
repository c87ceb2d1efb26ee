"""The commands that deploy and operate the platform; wiring only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.command_line import console_out, main, run_tool
from infra.doctor import doctor as examine
from infra.embedded.class_archive import class_archive
from infra.errors import RefusedError
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.prepare import CHECKOUT, default_console, prepare
from infra.toolchain.wheel import build_wheel

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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
def tools(
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every tool, also the demo's and those of a cluster here.")
    ] = False,
) -> None:
    """Find or build what deploys to a cluster: kubectl, Pulumi with its provider, CRDs."""
    from infra.toolchain import programs  # noqa: PLC0415
    from infra.toolchain.crds import resource_definitions  # noqa: PLC0415

    console = default_console()
    cache = Cache(cache_root())
    if every:
        prepare(console)
        programs.build_all(cache, console)
    else:
        programs.find_programs(cache, console, needed=programs.DEPLOYING)
    with console.step("custom resource definitions"):
        definitions = resource_definitions(cache)
    console.say(f"  {definitions}; `pulumi config set --path spark_operator.crds FOLDER` names them to a stack")


@app.command()
def up(
    profile: Annotated[str, typer.Option(help="laptop, ci, chaos, brokers or ha.")] = "laptop",
    *,
    monitoring: Annotated[bool, typer.Option(help="Prometheus and Alertmanager too, from now on.")] = False,
) -> None:
    """A kind cluster here with the whole platform; goes on where it was interrupted."""
    from infra.cluster.api import Api  # noqa: PLC0415
    from infra.cluster.lifecycle import require_cluster  # noqa: PLC0415
    from infra.operate.addresses import show_addresses  # noqa: PLC0415
    from infra.operate.pulling import watching  # noqa: PLC0415

    require_cluster(profile)
    console = default_console()
    lifecycle = _lifecycle(console)
    toolchain = prepare(console)
    with watching(lambda: Api(lifecycle.state.kubeconfig, None), None, lambda line: console.say(f"  ✗ {line}")):
        lifecycle.up(toolchain, profile, monitoring=monitoring)
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
    *,
    monitoring: Annotated[bool, typer.Option(help="That of Prometheus and Alertmanager too.")] = False,
) -> None:
    """Build the container images and print their sizes; with PUSH, push them to your registry and print digests."""
    from infra.images.wheels import keep  # noqa: PLC0415

    _require_arch(arch)
    console = default_console()
    lifecycle = _lifecycle(console)
    if wheel is not None:
        cache = Cache(cache_root())
        name = keep(cache, build_wheel(cache, wheel).path if wheel.is_dir() else wheel).name
        console.say(f"  {name} gets an image; `pulumi config set --path pipelines.NAME.wheel {name}` has it run")
    lifecycle.show_images(prepare(console), push, arch, monitoring=monitoring)


@app.command()
def sbom(
    image: Annotated[str, typer.Option(help="One of the published images; each when left out.")] = "",
    arch: Annotated[str, typer.Option(help="amd64 or arm64; this machine's when left out.")] = "",
) -> None:
    """Write what is in the container images, a CycloneDX file each; builds those that are not there."""
    from infra.images.catalogue import list_published  # noqa: PLC0415

    _require_arch(arch)
    if image and image not in (known := list_published(Cache(cache_root()))):
        raise RefusedError(f"{image!r} is not one of {', '.join(map(repr, known))} (IMAGE=)")
    console = default_console()
    _lifecycle(console).write_sboms(prepare(console), image, arch)


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
    """Write what is made from the source: every chart's schema and values, and the page of refusals."""
    from infra import refusals  # noqa: PLC0415
    from infra.values.__main__ import main as generate  # noqa: PLC0415

    raise typer.Exit(generate([]) or refusals.main())


def _require_arch(arch: str) -> None:
    from infra.images.packages import PLATFORM  # noqa: PLC0415

    if arch and arch not in PLATFORM:
        raise RefusedError(f"{arch!r} is not one of {', '.join(map(repr, PLATFORM))} (ARCH=)")


def _lifecycle(console: Any) -> Any:
    from infra.cluster.lifecycle import Lifecycle  # noqa: PLC0415 - brings Kubernetes and Pulumi packages

    return Lifecycle.here(console)


def _access(*, assume: bool = False) -> Any:
    from infra.cluster.access import load_access  # noqa: PLC0415
    from infra.cluster.state import state_directory  # noqa: PLC0415

    state = state_directory()
    return load_access(state.process_environment(), state.root, assume=assume)


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
    *,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove what the run before has left, and begin anew.")
    ] = False,
) -> None:
    """A declared pipeline with broker, object store and Spark here, until Ctrl-C; the next run goes on where it was."""
    from infra.cluster.state import state_directory  # noqa: PLC0415
    from infra.embedded.job import Job  # noqa: PLC0415
    from infra.embedded.run import Run  # noqa: PLC0415
    from infra.embedded.run_lock import hold  # noqa: PLC0415
    from infra.embedded.run_state import RunState  # noqa: PLC0415

    if at is None and job is None:
        raise RefusedError("name the folder of a pipeline (AT=), or a job of the library (JOB=)")
    console, cache = default_console(), Cache(cache_root())

    def read() -> Job:
        return Job.at(at, job, cache) if at else Job.from_library(job or "")

    what = read()
    folder = state_directory().runs / what.name
    with hold(folder.with_name(f"{folder.name}.lock"), what.name, console.say):
        toolchain = prepare(console)
        archive = class_archive(toolchain, console)
        state = RunState(folder)
        Run.here(what, toolchain, console, state, class_archive=archive, reload=read, fresh=fresh).go()


@app.command()
def docs(*, form: Annotated[bool, typer.Option(help="Bring the pages into their form first.")] = False) -> None:
    """The documentation as a site below build/site; links and form are checked."""
    from infra.docs import build  # noqa: PLC0415

    typer.echo(build(default_console(), Cache(cache_root()), form=form))


@app.command()
def lock() -> None:
    """Write anew: requirements.lock, those of images and docs, every jars.lock, the day of Debian's packages."""
    from infra.images import rootfs  # noqa: PLC0415
    from infra.toolchain import jars  # noqa: PLC0415

    common, images = "pip compile --quiet --generate-hashes --python-version 3.11", "images/deps/requirements"
    pages = f"{common} --universal --no-annotate docs/requirements.in --output-file docs/requirements.lock"
    ours = f"{common} --universal requirements.in --output-file requirements.lock"
    theirs = (
        f"{common} --no-annotate --python-platform linux --constraint requirements.lock {images}.in "
        f"--output-file {images}.lock --custom-compile-command"
    )
    with default_console().step("lock"):
        done = run_tool("uv", *ours.split())
        if done.returncode == 0:
            done = run_tool("uv", *theirs.split(), "make lock")
        if done.returncode == 0:
            done = run_tool("uv", *pages.split(), "--custom-compile-command", "make lock")
        if done.returncode == 0:
            jars.write_locks(Cache(cache_root()), CHECKOUT)
    if done.returncode == 0:
        rootfs.renew()
    raise typer.Exit(done.returncode)


if __name__ == "__main__":
    sys.exit(main(app))
