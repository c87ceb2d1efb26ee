"""The shim asks runc for no capability that the machine lacks, and changes nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.cluster import oci_shim
from infra.cluster.oci_shim import NAMES, documents, missing, without
from tests.unit.toolchain.fake_programs import program

ALL = (1 << len(NAMES)) - 1


def _status(bounding: int) -> str:
    return f"Name:\tpython3\nCapEff:\t0000000000000000\nCapBnd:\t{bounding:016x}\nCapAmb:\t0000000000000000\n"


def test_names_have_the_numbers_of_linux() -> None:
    numbers = {"CHOWN": 0, "NET_ADMIN": 12, "SYS_ADMIN": 21, "SYS_RESOURCE": 24, "SYSLOG": 34, "CHECKPOINT_RESTORE": 40}
    assert {name: NAMES.index(name) for name in numbers} == numbers
    assert len(set(NAMES)) == len(NAMES) == 41


def test_missing_are_the_names_of_the_bits_that_are_not_set() -> None:
    assert missing(_status(ALL)) == set()
    assert missing(_status(ALL & ~(1 << 24) & ~(1 << 38))) == {"CAP_SYS_RESOURCE", "CAP_PERFMON"}
    assert len(missing(_status(0))) == 41


def test_newer_kernels_and_unreadable_texts_lack_nothing() -> None:
    assert missing(_status((1 << 64) - 1)) == set()
    assert missing("Name:\tpython3\n") == set()


def _bundle() -> dict[str, Any]:
    names = ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_KILL"]
    return {
        "process": {
            "args": ["/sbin/init", "CAP_SYS_RESOURCE"],
            "capabilities": {"bounding": list(names), "effective": list(names), "ambient": None},
        },
        "hostname": "node",
    }


def test_a_bundle_asks_for_the_rest_in_the_same_order() -> None:
    wanted = without(_bundle(), {"CAP_SYS_RESOURCE"})
    rest = ["CAP_CHOWN", "CAP_KILL"]
    assert wanted["process"]["capabilities"] == {"bounding": rest, "effective": rest, "ambient": []}
    assert wanted["process"]["args"] == ["/sbin/init", "CAP_SYS_RESOURCE"]
    assert wanted["hostname"] == "node"


def test_the_process_of_an_exec_is_corrected_as_well() -> None:
    assert without(_bundle()["process"], {"CAP_KILL"})["capabilities"]["effective"] == ["CAP_CHOWN", "CAP_SYS_RESOURCE"]


def test_documents_without_capabilities_are_left_as_they_are() -> None:
    odd: list[Any] = [{"args": ["true"]}, {"process": {"capabilities": None}}, {}, []]
    for document in odd:
        assert without(json.loads(json.dumps(document)), {"CAP_KILL"}) == document


def test_the_files_of_a_command_line_are_found_however_they_are_given() -> None:
    config, process = Path("/b/config.json"), Path("/run/p.json")
    assert documents(["--root", "/r", "create", "--bundle", "/b", "--pid-file", "/p", "id"]) == [config]
    assert documents(["create", "--bundle=/b", "id"]) == [config]
    assert documents(["run", "-b", "/b", "id"]) == [config]
    assert documents(["exec", "--process", "/run/p.json", "--detach", "id"]) == [process]
    assert documents(["exec", "-p=/run/p.json", "id"]) == [process]
    assert documents(["--root", "/r", "delete", "--force", "id"]) == []


def test_as_a_program_it_corrects_the_bundle_and_becomes_runc(tmp_path: Path) -> None:
    """Isolated as dockerd starts it: nothing of this repository is on its path."""
    (tmp_path / "config.json").write_text(json.dumps(_bundle()))
    program(tmp_path / "bin", "runc", 'echo "$@"; exit 7')
    lacks = missing(Path("/proc/self/status").read_text())
    ended = subprocess.run(
        [sys.executable, "-ISB", oci_shim.__file__, "--log", "x", "create", "--bundle", str(tmp_path), "id"],
        env={"PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (7, f"--log x create --bundle {tmp_path} id\n"), ended.stderr
    assert json.loads((tmp_path / "config.json").read_text()) == (without(_bundle(), lacks) if lacks else _bundle())
