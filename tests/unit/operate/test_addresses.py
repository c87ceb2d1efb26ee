"""`make open`: what is shown, and what counts as an answer."""

from __future__ import annotations

import io
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Screen

from infra.certificates import make_authority, sign
from infra.cluster.api import ApiError, ClusterError
from infra.embedded.ports import free_ports
from infra.operate import addresses, probes
from infra.operate.addresses import show_addresses
from infra.operate.facts import gather
from infra.operate.forward import Forward, hold
from tests.unit.operate.cluster import (
    AT,
    OUTPUT,
    PASSWORD,
    PIPELINES,
    PLATFORM,
    Cluster,
    access,
    container,
    platform,
    pod,
    secret,
    spark,
)

UI = f"/api/v1/namespaces/{PIPELINES}/pods/user-counts-driver:4040/proxy/api/v1/applications"


def _shown(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, why: str | None = None, **changes: Any
) -> tuple[int, str]:
    for name in ("http", "kafka", "postgres"):
        monkeypatch.setattr(probes, name, lambda _: why)
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    out = io.StringIO()
    code = show_addresses(access(cluster, **changes), Screen(file=out, width=60))
    return code, out.getvalue()


def _ready() -> Cluster:
    cluster = Cluster().ready()
    cluster.objects[UI] = [{"id": "spark-1"}]
    return cluster


def test_every_address_is_shown_with_how_to_get_there_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = _shown(_ready(), monkeypatch)
    assert code == 0
    kubectl = "kubectl --kubeconfig /state/kubeconfig"
    assert f"{kubectl} -n {PIPELINES} port-forward pod/user-counts-driver 4040:4040" in text
    assert "http://127.0.0.1:12080" in text
    assert "http://127.0.0.1:12001" in text
    assert "127.0.0.1:12092" in text
    assert f"{kubectl} -n {PLATFORM} port-forward svc/postgres 5432:5432" in text
    command = f"{kubectl} -n {PIPELINES} get secret object-store-credentials -o jsonpath="
    assert f"password: {command}'{{.data.AWS_SECRET_ACCESS_KEY}}' | base64 -d" in text
    assert "user: the same with .data.AWS_ACCESS_KEY_ID" in text
    assert f"{kubectl} -n {PLATFORM} get secret postgres-credentials -o jsonpath='{{.data.password}}'" in text
    assert PASSWORD not in text
    assert "✗" not in text
    assert "✓ Spark UI of user_counts  http://127.0.0.1:4040" in text


def test_what_does_not_answer_is_marked_and_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = _shown(_ready(), monkeypatch, "Connection refused")
    assert code == 1
    assert text.count("does not answer: Connection refused") == 4  # history server, S3, console, Kafka
    cluster = _ready()
    cluster.objects[UI] = ApiError(503, "no endpoints", UI)
    code, text = _shown(cluster, monkeypatch)
    assert code == 1
    assert "does not answer: no endpoints" in text


def test_a_page_that_asks_for_a_password_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _ready()
    cluster.objects[UI] = ApiError(401, "Unauthorized", UI)
    code, text = _shown(cluster, monkeypatch)
    assert (code, "answers inside, and asks for a password" in text) == (0, True)


def test_a_pipeline_without_a_driver_and_a_store_that_is_not_ready_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _ready()
    cluster.put_pod(
        pod("user-counts-driver", PIPELINES, spark("driver"), phase="Failed", reason="Evicted", message="x")
    )
    broken = container("postgres", ready=False)
    cluster.put_pod(pod("postgres-0", PLATFORM, {"app.kubernetes.io/name": "postgres"}, broken))
    code, text = _shown(cluster, monkeypatch)
    assert code == 1
    assert "no driver runs now" in text
    assert "not ready: 0/1 pod; postgres-0: postgres: runs, readiness probe has not passed yet" in text


def test_without_access_from_outside_the_ways_in_are_shown() -> None:
    cluster = _ready()
    described = platform(
        kafka={"bootstrap": "kafka:9092"},
        object_store={"endpoint": "http://minio:9000", "secret": "s"},
        history_server={},
    )
    found = addresses.addresses(described, gather(cluster, described, AT), "kubectl", {})
    by_name = {one.name: one for one in found}
    assert by_name["history server"].forward == Forward(PLATFORM, "svc/history-server", 18080, 18080)
    assert by_name["MinIO console"].forward == Forward(PLATFORM, "svc/minio", 9001, 9001)
    assert by_name["Kafka bootstrap"].probe is None
    assert "external_access" in by_name["Kafka bootstrap"].note


def test_stores_that_were_brought_along_are_asked_where_they_are() -> None:
    cluster = _ready()
    for name in ("kafka", "minio", "postgres"):
        cluster.remove(f"/apis/apps/v1/namespaces/{PLATFORM}/statefulsets", name)
    described = platform(
        kafka={"bootstrap": "broker.example:9092"},
        object_store={"endpoint": "https://s3.example"},
        result_store={"endpoint": "postgresql://db.example:5432/x"},
    )
    found = {one.name: one for one in addresses.addresses(described, gather(cluster, described, AT), "kubectl", {})}
    assert (found["Kafka bootstrap"].address, found["Kafka bootstrap"].probe) == ("broker.example:9092", probes.kafka)
    assert (found["PostgreSQL"].address, found["PostgreSQL"].probe) == (
        "postgresql://db.example:5432/x",
        probes.postgres,
    )
    assert found["object store (S3)"].address == "https://s3.example"
    assert "MinIO console" not in found


@contextmanager
def _server(answer: Callable[[bytes], bytes], shown: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server for one connection, with TLS where it shows a certificate: host:port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            # Whoever does not believe it is gone before it says a word.
            with connection, suppress(ssl.SSLError, ConnectionError):
                told = connection if shown is None else shown.wrap_socket(connection, server_side=True)
                told.sendall(answer(told.recv(4096)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join(5)


def _broker(request: bytes) -> bytes:
    length, key, version, correlation = struct.unpack("!ihhi", request[:12])
    assert (length, key, version) == (len(request) - 4, 18, 0)
    return struct.pack("!iihi", 10, correlation, 0, 0)


@pytest.mark.parametrize(
    ("probe", "answer", "why"),
    [
        (probes.kafka, _broker, None),
        (probes.kafka, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "no Kafka broker"),
        (probes.kafka, lambda _: b"", "closed without an answer"),
        (probes.postgres, lambda request: b"N" if request == struct.pack("!ii", 8, 80877103) else b"E", None),
        (probes.postgres, lambda _: b"E", "no PostgreSQL"),
        (
            lambda at: probes.http(f"http://{at}/"),
            lambda _: b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
            None,
        ),
        (
            lambda at: probes.http(f"http://{at}/"),
            lambda _: b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            "HTTP 503",
        ),
    ],
)
def test_an_answer_counts_only_in_the_protocol_of_the_service(
    probe: probes.Probe, answer: Callable[[bytes], bytes], why: str | None
) -> None:
    with _server(answer) as address:
        found = probe(address)
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")


def test_nobody_there_is_no_answer_and_names_the_broker() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    assert address in (probes.kafka(address) or "")
    assert "refused" in (probes.postgres(f"postgresql://{address}/db") or "")
    assert probes.http(f"http://{address}/")


FORWARDER = """#!/usr/bin/env python3
import socket, sys, time
print(*sys.argv, flush=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[-1].split(":")[0])))
time.sleep(LIVES)
"""


def _kubectl(directory: Path, lives: str) -> str:
    program = directory / "kubectl"
    program.write_text(FORWARDER.replace("LIVES", lives))
    program.chmod(0o755)
    return str(program)


def test_ways_in_are_held_until_ctrl_c_and_a_taken_port_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    screen = Screen(file=out, width=200)
    shown = screen.print

    def interrupt(*words: Any) -> None:
        shown(*words)
        if words == ("open until Ctrl-C",):
            raise KeyboardInterrupt

    monkeypatch.setattr(screen, "print", interrupt)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hold({"Spark UI": Forward("n", "pod/x", 4040, port)}, _kubectl(tmp_path, "60"), {}, screen)
    assert "✓ Spark UI: http://127.0.0.1:" in out.getvalue()
    assert f":{port}\n" not in out.getvalue()
    assert out.getvalue().endswith("closed\n")
    address = out.getvalue().split("http://")[1].split()[0]
    assert not probes.listens("127.0.0.1", int(address.split(":")[1])), "the way in was left open"


def test_a_way_in_that_ends_is_an_error_with_kubectls_words(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="a way in was closed") as caught:
        forward = Forward("n", "pod/x", 4040, free_ports(1)[0])
        hold({"Spark UI": forward}, _kubectl(tmp_path, "0.3"), {}, Screen(file=io.StringIO()))
    assert "port-forward pod/x" in str(caught.value)


@pytest.mark.parametrize("theirs", [True, False])
def test_a_server_with_a_certificate_is_asked_by_whom_it_is_believed(tmp_path: Path, theirs: bool) -> None:
    authority = make_authority("a platform")
    own = sign(authority, "server", ["127.0.0.1"])
    for name, text in (("crt", own.certificate), ("key", own.key)):
        (tmp_path / name).write_text(text)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    whom = authority if theirs else make_authority("another platform")
    believed = ssl.create_default_context(cadata=whom.certificate)
    with _server(_broker, shown) as address:
        why = probes.kafka(address, believed)
    assert why is None if theirs else "CERTIFICATE_VERIFY_FAILED" in str(why)
    with _server(lambda _: b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", shown) as address:
        why = probes.http(f"https://{address}/", believed)
    assert why is None if theirs else "CERTIFICATE_VERIFY_FAILED" in str(why)


def test_of_a_secured_stack_addresses_say_so_and_probes_believe_its_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, told = _ready(), OUTPUT["object_store"]
    cluster.put_secret(secret("tls", PLATFORM, **{"ca.crt": make_authority("a platform").certificate}))
    kafka = {**OUTPUT["kafka"], "certificates": "tls", "secret": "platform-campaigns-kafka"}
    store = {**told, "external_endpoint": "https://127.0.0.1:12000", "external_console": None, "certificates": "tls"}
    asked: dict[str, Any] = {}
    for name in ("http", "kafka"):
        monkeypatch.setattr(probes, name, lambda at, believed=None: asked.setdefault(at, believed) and None)
    monkeypatch.setattr(probes, "postgres", lambda _: None)
    out = io.StringIO()
    assert show_addresses(access(cluster, kafka=kafka, object_store=store), Screen(file=out, width=200)) == 0
    assert isinstance(asked["https://127.0.0.1:12000"], ssl.SSLContext)
    assert isinstance(asked["127.0.0.1:12092"], ssl.SSLContext)
    assert asked["http://127.0.0.1:12080"] is None, "the history server shows none"
    assert "https://127.0.0.1:9001" in out.getvalue(), "a port that is forwarded"
    assert f"login: Secret {PIPELINES}/platform-campaigns-kafka" in out.getvalue()
