"""A `pulumi-language-python` of our own: runs this repository's program for the plain `pulumi` command.

The Go module of Pulumi's own language host is not served everywhere, and it is not needed: the `pulumi` package holds
the runtime and the gRPC service. The command line starts this on PATH as `pulumi-language-python ENGINE_ADDRESS`,
reads a port from the first line of stdout, calls, and ends it with SIGINT.
"""

from __future__ import annotations

import importlib.metadata
import queue
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from infra.plugin import serve

REPORTED_PACKAGES = ("pulumi", "pulumi-kubernetes")


def entry_point(program_directory: str, name: str) -> Path:
    """Return the file to run: `name` inside the program's directory, where a directory stands for its `__main__.py`.

    Raises FileNotFoundError naming what was looked for.
    """
    path = Path(program_directory, name or ".").resolve()
    if path.is_dir():
        path /= "__main__.py"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such program; `main` in Pulumi.yaml names its folder or file")
    return path


class LanguageHost(LanguageServer):
    """Answers the engine. The base class has the parts that set up the runtime and wait for every resource."""

    def __init__(self, engine_address: str, stop: threading.Event) -> None:
        """`engine_address` is where log lines go; `stop` is set when the engine asks to end."""
        super().__init__(lambda: None)
        self._engine = engine_address
        self._stop = stop

    # Names and arguments are those of the protocol.
    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Take the engine's address, which a host that was attached to does not get as an argument."""
        self._engine = request.engine_address or self._engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Return the version of the runtime."""
        return plugin_pb2.PluginInfo(version=importlib.metadata.version("pulumi"))

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Ask for nothing: the interpreter is the one this runs in."""
        return language_pb2.RuntimeOptionsResponse()

    def InstallDependencies(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Install nothing: this interpreter has what the program needs, or it could not run this."""
        return iter(())

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Return the packages that decide about a deployment, for `pulumi about`."""
        found = [
            language_pb2.DependencyInfo(name=name, version=importlib.metadata.version(name))
            for name in REPORTED_PACKAGES
        ]
        return language_pb2.GetProgramDependenciesResponse(dependencies=found)

    def Run(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Run the program and return when every resource is settled; an error is part of the answer."""
        # The base class finds the address for log lines where the automation API puts it.
        if not request.args:
            request.args.append(self._engine)
        try:
            program = entry_point(request.info.program_directory or request.pwd, request.info.entry_point)
        except FileNotFoundError as error:
            return language_pb2.RunResponse(error=str(error))

        def run() -> None:
            runpy.run_path(str(program), run_name="__main__")

        self.program = run
        answer = super().Run(request, context)  # type: ignore[no-untyped-call]
        if answer.error and request.args[0]:
            # It has been logged already; the engine would print it once more, as unhandled.
            answer = language_pb2.RunResponse(bail=True)
        return answer

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Run a policy pack (the engine's word: analyzer) in a process of its own, and pass on what it prints."""
        if request.kind != "analyzer":
            yield language_pb2.RunPluginResponse(stderr=f"{request.kind}: only policy packs run here\n".encode())
            yield language_pb2.RunPluginResponse(exitcode=1)
            return
        # As Pulumi's own host does: the module sets the runtime up and runs the folder's `__main__.py`.
        command = [sys.executable, "-u", "-m", "pulumi.policy", *request.args, request.info.program_directory]
        variables = dict(one.split("=", 1) for one in request.env)
        running = subprocess.Popen(
            command,
            cwd=request.pwd,
            env=variables or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # How the engine ends it: it hangs up.
        context.add_callback(running.kill)
        yield from _lines(running)
        yield language_pb2.RunPluginResponse(exitcode=running.wait())

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """End soon; what runs is not waited for, because the engine has given it up."""
        self._stop.set()
        return empty_pb2.Empty()


def _lines(running: subprocess.Popen[bytes]) -> Iterator[language_pb2.RunPluginResponse]:
    """Yield what a process prints, line by line, until it has closed both of its outputs."""
    said: queue.SimpleQueue[language_pb2.RunPluginResponse | None] = queue.SimpleQueue()

    def read(stream: IO[bytes] | None, pack: Callable[[bytes], language_pb2.RunPluginResponse]) -> None:
        for line in stream or ():
            said.put(pack(line))
        said.put(None)

    streams = (
        (running.stdout, lambda line: language_pb2.RunPluginResponse(stdout=line)),
        (running.stderr, lambda line: language_pb2.RunPluginResponse(stderr=line)),
    )
    for stream, pack in streams:
        threading.Thread(target=read, args=(stream, pack), daemon=True).start()
    for _ in streams:
        yield from iter(said.get, None)


def main(arguments: list[str]) -> NoReturn:
    """Serve until the engine or the user ends it."""
    stop = threading.Event()
    addresses = [argument for argument in arguments if not argument.startswith("-")]
    host = LanguageHost(addresses[-1] if addresses else "", stop)
    serve(partial(language_pb2_grpc.add_LanguageRuntimeServicer_to_server, host), stop)


if __name__ == "__main__":
    main(sys.argv[1:])
