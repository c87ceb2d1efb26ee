"""What a container of the Spark image starts: images/spark/entrypoint and job.py, with a fake java and python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra.images.catalogue import FOLDER
from tests.unit.images.shell import Start, run
from tests.unit.toolchain.fake_programs import program

# Prints every argument on a line of its own, so that what was one word is seen as one.
ARGUMENTS = 'printf "%s\\n" "$0" "$@"'

SCRIPT = FOLDER / "spark" / "entrypoint"
EXECUTOR = {
    "SPARK_EXECUTOR_MEMORY": "700m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.244.0.9",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "user-counts-exec-3",
}


@pytest.fixture
def start(tmp_path: Path) -> Start:
    program(tmp_path / "java" / "bin", "java", ARGUMENTS)
    program(tmp_path / "bin", "python3", f'echo "submit: $PYSPARK_SUBMIT_ARGS"; {ARGUMENTS}')
    fixed = {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": "/opt/spark", "CLASS_ARCHIVE": "/a/classes.jsa"}

    def start(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run(SCRIPT, *words, env={**fixed, **env}, path=tmp_path / "bin")

    return start


def test_the_driver_is_python_with_sparks_arguments_in_the_variable_that_pyspark_reads(start: Start) -> None:
    ended = start(
        "driver",
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "--class",
        "org.apache.spark.deploy.PythonRunner",
        "local:///opt/effectively-once/job.py",
        "effectively_once_jobs.user_counts",
        "/etc/set tings.json",
        SPARK_DRIVER_BIND_ADDRESS="10.244.0.7",
    )
    assert ended.returncode == 0, ended.stderr
    submit, _, *arguments = ended.stdout.splitlines()
    assert submit.split() == [
        "submit:",
        "--deploy-mode",
        "client",
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "--conf",
        "spark.driver.bindAddress=10.244.0.7",
        "pyspark-shell",
    ]
    assert arguments == ["/opt/effectively-once/job.py", "effectively_once_jobs.user_counts", "/etc/set tings.json"]


def test_the_driver_takes_the_place_of_the_script_so_that_signals_reach_it(start: Start, tmp_path: Path) -> None:
    program(tmp_path / "bin", "python3", "kill -TERM $$")
    assert start("driver", "local:///job.py").returncode == -15


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["driver"], "no job's file"),
        (["driver", "--properties-file", "/p"], "no job's file"),
        (["driver", "--verbose", "local:///job.py"], "unexpected argument '--verbose'"),
        (["driver", "/job.py"], "unexpected argument '/job.py'"),
        ([], "say what to do: driver, executor, history-server"),
    ],
)
def test_what_cannot_be_started_is_refused_with_what_is_wrong(start: Start, words: list[str], said: str) -> None:
    ended = start(*words)
    assert ended.returncode == 64
    assert said in ended.stderr
    assert ended.stdout == ""


def test_an_executor_gets_its_options_each_as_one_word_and_its_place_in_the_application(start: Start) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dx.{number}=a b" for number in range(11)}
    ended = start("executor", **EXECUTOR, **options, SPARK_JAVA_OPT_12="-Dafter.a.gap=1", SPARK_CLASSPATH="/j/*")
    assert ended.returncode == 0, ended.stderr
    words = ended.stdout.splitlines()[1:]
    at = words.index("-Dx.0=a b")
    assert words[at : at + 11] == list(options.values())
    assert "-Dafter.a.gap=1" not in words
    assert {"-Xms700m", "-Xmx700m"} <= set(words)
    # The archive of classes fits one class path only; ours come first.
    path = words[words.index("-cp") + 1]
    assert path.startswith("/j/*:")
    assert path.endswith(":/opt/spark/jars/*")
    main = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    flags = dict(zip(words[main + 1 :: 2], words[main + 2 :: 2], strict=True))
    assert flags == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "1",
        "--app-id": "spark-1",
        "--hostname": "10.244.0.9",
        "--resourceProfileId": "0",
        "--podName": "user-counts-exec-3",
    }


def test_an_executor_that_has_a_secret_in_a_file_is_told_the_kind_of_its_master(start: Start) -> None:
    """Else Spark does not read the file (`SecurityManager.secretKeyFromFile`), and the executor ends."""
    secret = {
        "SPARK_JAVA_OPT_0": "-Dspark.authenticate=true",
        "SPARK_JAVA_OPT_1": "-Dspark.authenticate.secret.file=/s",
    }
    words = start("executor", **EXECUTOR, **secret).stdout.splitlines()
    (master,) = (word for word in words if word.startswith("-Dspark.master="))
    assert master.startswith("-Dspark.master=k8s://")
    assert words.index(master) < words.index("-cp")
    assert "spark.master" not in start("executor", **EXECUTOR, SPARK_JAVA_OPT_0="-Dspark.authenticate=true").stdout


def test_an_executor_without_options_starts_as_well(start: Start) -> None:
    ended = start("executor", **EXECUTOR)
    assert ended.returncode == 0, ended.stderr
    assert "" not in ended.stdout.splitlines()


@pytest.mark.parametrize("missing", sorted(EXECUTOR))
def test_an_executor_that_spark_did_not_describe_is_not_started(start: Start, missing: str) -> None:
    ended = start("executor", **{name: value for name, value in EXECUTOR.items() if name != missing})
    assert ended.returncode != 0
    assert missing in ended.stderr
    assert ended.stdout == ""


def test_the_history_server_gets_its_options_as_words(start: Start) -> None:
    words = start("history-server", SPARK_HISTORY_OPTS="-Da=1 -Db=2").stdout.splitlines()
    assert {"-Da=1", "-Db=2", "-Xmx512m"} <= set(words)
    assert words[-1] == "org.apache.spark.deploy.history.HistoryServer"


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII{}\n-----END CERTIFICATE-----\n"
TRUST = "-Djavax.net.ssl.trustStore="


@pytest.mark.parametrize("words", [["driver", "local:///job.py"], ["executor"], ["history-server"]])
def test_every_jvm_believes_the_certificates_of_the_store_beside_javas(
    words: list[str], start: Start, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    program(tmp_path / "java" / "bin", "keytool", f'echo "$@" >>{asked}')
    program(tmp_path / "bin", "python3", 'echo "$SPARK_SUBMIT_OPTS"')
    (tmp_path / "ca.crt").write_text(CERTIFICATE.format("one") + CERTIFICATE.format("two"))
    stores = set()
    for _ in range(2):  # a container that is started again has the /tmp of before
        asked.unlink(missing_ok=True)
        ended = start(*words, **EXECUTOR, AWS_CA_BUNDLE=str(tmp_path / "ca.crt"), TMPDIR=str(tmp_path))
        assert ended.returncode == 0, ended.stderr
        (store,) = (word for word in ended.stdout.split() if word.startswith(f"{TRUST}{tmp_path}/"))
        stores.add(store)
    assert len(stores) == 2, "keytool refuses an alias that a store has"
    imported = asked.read_text().splitlines()
    assert "-importkeystore" in imported[0]
    assert f"{tmp_path}/java/lib/security/cacerts" in imported[0]
    assert ["own-1" in imported[1], "own-2" in imported[2], len(imported)] == [True, True, 3]


def test_without_such_certificates_java_is_left_as_it_is(start: Start) -> None:
    assert TRUST not in start("executor", **EXECUTOR).stdout


@pytest.mark.parametrize(
    ("text", "says"), [("nothing", "no certificate is in"), (CERTIFICATE.format("x"), "not X.509")]
)
def test_certificates_that_are_none_start_nothing(text: str, says: str, start: Start, tmp_path: Path) -> None:
    refuses = 'case "$1" in -importcert) echo "not X.509"; exit 1 ;; esac'
    program(tmp_path / "java" / "bin", "keytool", refuses)
    (tmp_path / "ca.crt").write_text(text)
    ended = start("executor", **EXECUTOR, AWS_CA_BUNDLE=str(tmp_path / "ca.crt"), TMPDIR=str(tmp_path))
    assert ended.returncode != 0
    assert says in ended.stderr
    assert ended.stdout == ""


def test_anything_else_is_run_as_it_is(start: Start) -> None:
    ended = start("sh", "-c", 'echo "$1"; exit 3', "sh", "two words")
    assert (ended.returncode, ended.stdout) == (3, "two words\n")


def _start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "spark" / "job.py"), *words]
    env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)


def test_a_module_is_run_as_the_program_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "counts.py").write_text("import sys\nprint(__name__, sys.argv[1:])\nsys.exit(5)\n")
    ended = _start(tmp_path, "counts", "/etc/settings.json")
    assert (ended.returncode, ended.stdout) == (5, "__main__ ['/etc/settings.json']\n")


def test_the_librarys_command_runs_the_job_that_settings_name(tmp_path: Path) -> None:
    """What the chart has a driver start: here it gets as far as the settings, which name nothing."""
    settings = tmp_path / "settings.json"
    settings.write_text(
        '{"pipeline": "a", "topic": "b", "job": "no_such_job", "kafka_bootstrap": "k:1", "s3_endpoint": "http://s:1", '
        '"s3_bucket": "abc"}'
    )
    ended = _start(FOLDER.parent / "pipelines" / "src", "effectively_once", "run", str(settings))
    assert ended.returncode == 64
    assert "the job cannot be imported: ModuleNotFoundError: No module named 'no_such_job'" in ended.stderr


def test_without_a_module_it_says_what_is_missing(tmp_path: Path) -> None:
    ended = _start(tmp_path)
    assert ended.returncode == 1
    assert "the first argument is the module to run" in ended.stderr
