"""Spark's page is shown to who knows the password of the pipeline, and to nobody else."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest

from infra.toolchain.jdk import find_jdk
from infra.toolchain.jvm import pyspark_jars
from infra.toolchain.prepare import CHECKOUT

FILTER: Final = CHECKOUT / "pipelines" / "jvm" / "src" / "org" / "effectivelyonce" / "ui" / "PasswordFilter.java"
PAGE: Final = Path(__file__).with_name("GuardedPage.java")
CONTENT: Final = b"what a job is made of"
PASSWORD: Final = "kept-in_a-file"
QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx64m")
START_S: Final = 60


class Guarded:
    """A page behind the filter."""

    def __init__(self, port: int, file: Path) -> None:
        self.file, self._port = file, port

    def ask(self, authorization: str | None, path: str = "/jobs/") -> tuple[int, str | None, bytes]:
        """Return the status, what a browser is asked for, and the page."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("WWW-Authenticate"), answer.read()
        finally:
            connection.close()

    def shows(self, authorization: str | None, path: str = "/jobs/") -> bool:
        """Whether it shows the page; if it does not, it has to ask for the password and say nothing else."""
        status, asks, content = self.ask(authorization, path)
        if status == 200:
            assert CONTENT in content
            return True
        assert (status, asks) == (401, 'Basic realm="Spark", charset="UTF-8"')
        assert CONTENT not in content
        return False

    def count(self) -> int:
        """Return how often the page was reached, this time included."""
        return int(self.ask(basic(f"anybody:{PASSWORD}"))[2].rpartition(b" ")[2])


def basic(said: str) -> str:
    return f"Basic {base64.b64encode(said.encode()).decode()}"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compile the filter against the jars that Spark runs with; return what starts a page behind it."""
    jdk, classes = find_jdk(), tmp_path_factory.mktemp("classes")
    jars = f"{pyspark_jars()}/*"
    quick = [f"-J{option}" for option in QUICK[:2]]
    compiled = [jdk.javac, *quick, "-proc:none", "-encoding", "UTF-8", "-classpath", jars, "-d", classes, FILTER, PAGE]
    subprocess.run([str(word) for word in compiled], check=True, timeout=START_S)
    return [str(jdk.java), *QUICK, "-classpath", f"{classes}:{jars}", "GuardedPage"]


@contextmanager
def started(command: list[str], file: Path) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, str(file)], text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def running(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    file = tmp_path_factory.mktemp("page") / "page"
    file.write_text(PASSWORD)
    with started(command, file) as process:
        assert process.stdout is not None
        yield Guarded(int(process.stdout.readline()), file)


@pytest.fixture
def guarded(running: Guarded) -> Guarded:
    running.file.write_text(f"{PASSWORD}\n")
    return running


@pytest.mark.parametrize("name", ["anybody", "", "Jürgen"])
def test_who_knows_the_password_sees_the_page_under_any_name(name: str, guarded: Guarded) -> None:
    assert guarded.shows(basic(f"{name}:{PASSWORD}"))


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic ",
        basic(""),
        basic(":"),
        basic("anybody:"),
        basic(f"{PASSWORD}:"),
        basic("anybody:another"),
        basic(f"anybody:{PASSWORD[:-1]}"),
        basic(f"anybody:{PASSWORD}x"),
        basic(f"anybody:{PASSWORD.upper()}"),
        basic(f"anybody:{PASSWORD}:"),
        f"Basic {PASSWORD}",
        f"Basic anybody:{PASSWORD}",
        basic(f"anybody:{PASSWORD}").replace("Basic", "Bearer"),
        "Basic ====",
    ],
)
def test_nobody_else_does(authorization: str | None, guarded: Guarded) -> None:
    assert not guarded.shows(authorization)


@pytest.mark.parametrize("path", ["/", "/jobs/job/kill/?id=1", "/api/v1/applications", "/static/a.js", "/metrics/json"])
def test_no_page_is_without_it(path: str, guarded: Guarded) -> None:
    assert not guarded.shows(None, path)
    assert guarded.shows(basic(f"anybody:{PASSWORD}"), path)


def test_what_is_refused_does_not_reach_the_page(guarded: Guarded) -> None:
    """It would end a job, though nothing of it were shown."""
    before = guarded.count()
    for authorization in (None, basic(f"{PASSWORD}:"), "Basic ===="):
        assert not guarded.shows(authorization, "/jobs/job/kill/?id=1")
    assert guarded.count() == before + 1


def test_a_renewed_password_counts_at_once_and_the_one_before_no_more(guarded: Guarded) -> None:
    guarded.file.write_text("renewed")
    assert guarded.shows(basic("anybody:renewed"))
    assert not guarded.shows(basic(f"anybody:{PASSWORD}"))


@pytest.mark.parametrize("text", ["", "\n", " \n"])
def test_an_empty_file_is_no_password_that_an_empty_answer_knows(text: str, guarded: Guarded) -> None:
    guarded.file.write_text(text)
    for said in ("", ":", "anybody:", f"anybody:{text}", f"anybody:{PASSWORD}"):
        assert not guarded.shows(basic(said))


def test_a_file_that_goes_away_opens_nothing(guarded: Guarded) -> None:
    guarded.file.unlink()
    for authorization in (basic(f"anybody:{PASSWORD}"), basic("anybody:")):
        status, _, content = guarded.ask(authorization)
        assert status == 500
        assert CONTENT not in content
    assert guarded.ask(None)[0] != 200


def test_no_page_is_served_without_a_file_to_read(command: list[str], tmp_path: Path) -> None:
    with started(command, tmp_path / "none") as process:
        said, failed = process.communicate(timeout=START_S)
    assert said == "", "a port"
    assert f"the password of Spark's page cannot be read: {tmp_path / 'none'}" in failed
