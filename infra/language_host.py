"""A `pulumi-language-python` of our own: runs this repository's program for the plain `pulumi` command.

The Go module of Pulumi's own language host is not served everywhere, and it is not needed: the `pulumi` package holds
the runtime and the gRPC service. The command line starts this on PATH as `pulumi-language-python ENGINE_ADDRESS`,
reads a port from the first line of stdout, calls, and ends it with SIGINT.
"""

from __future__ import annotations

import importlib.metadata
import os
import runpy
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.automation._server import LanguageServer
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

PARENT_CHECK_S = 2.0  # how long a killed `pulumi` may leave its host behind
STOP_GRACE_S = 0.2  # for the answer to Cancel; a program that still runs is not waited for
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

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """End soon; what runs is not waited for, because the engine has given it up."""
        self._stop.set()
        return empty_pb2.Empty()


def main(arguments: list[str]) -> NoReturn:
    """Serve until SIGINT, SIGTERM, Cancel or the death of the process that started this; exits with 0."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    parent = os.getppid()
    addresses = [argument for argument in arguments if not argument.startswith("-")]
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=_GRPC_CHANNEL_OPTIONS)
    host = LanguageHost(addresses[-1] if addresses else "", stop)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while not stop.wait(PARENT_CHECK_S):
        if os.getppid() != parent:
            break
    server.stop(STOP_GRACE_S).wait()
    # A program that still waits for the engine keeps threads that would hold the exit up.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
