"""A docker command that answers what a test wrote down, and keeps what it was asked."""

from __future__ import annotations

from pathlib import Path

from tests.unit.toolchain.fake_programs import program


class FakeDocker:
    """`answers` are bodies of a shell `case` by pattern of the whole command line; what no pattern meets succeeds."""

    def __init__(self, folder: Path) -> None:
        """`folder` gets the executable and the record of its calls."""
        self.path = folder / "docker"
        self._record = folder / "calls"
        self.answers({})

    def answers(self, bodies: dict[str, str]) -> None:
        """Answer these command lines so from now on."""
        cases = "".join(f"  {pattern}) {body} ;;\n" for pattern, body in bodies.items())
        program(self.path.parent, "docker", f'echo "$*" >>{self._record}\ncase "$*" in\n{cases}  *) : ;;\nesac')

    @property
    def calls(self) -> list[str]:
        """Command lines so far, one each."""
        return self._record.read_text().splitlines() if self._record.exists() else []
