"""A store is spoken to with the region, the certificates and the credentials that the environment names."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3

from effectively_once.errors import AccessError, SettingsError, UnreachableError
from effectively_once.ledger.objects import Absent, Get
from effectively_once.store import s3_client
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from tests.unit.library import http_store

TOKEN = "eyJ.the-token.of-a-pod"
ASSUMED = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASSUMED</AccessKeyId>
<SecretAccessKey>assumed-secret</SecretAccessKey><SessionToken>assumed-token</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
ALL = (
    s3_client.ACCESS_KEY,
    s3_client.SECRET_KEY,
    s3_client.SESSION_TOKEN,
    s3_client.CERTIFICATES,
    s3_client.TOKEN_FILE,
    s3_client.ROLE,
    s3_client.ISSUER,
    *s3_client.REGIONS,
)


class Server:
    """Answers as STS to posts and as an empty store to gets; keeps the queries of both."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.says, self.credentials = 200, ASSUMED.encode()
        server = self

        class Handler(http_store.Handler):
            def respond(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                server.asked.append((self.command, query))
                is_sts = self.command == "POST"
                status, body = (server.says, server.credentials) if is_sts else (404, http_store.NONE)
                self.answer(status, body)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def query(self, verb: str) -> dict[str, str]:
        return next(query for one, query in self.asked if one == verb)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ALL:
        monkeypatch.delenv(name, raising=False)
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def serve(server: Server, scheme: str = "http") -> S3ObjectStore:
    threading.Thread(target=server.http.serve_forever, args=(0.05,), daemon=True).start()
    return S3ObjectStore(BucketAddress(f"{scheme}://127.0.0.1:{server.http.server_port}", "bucket"), patience_s=0.25)


def with_keys(monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    for name, value in {s3_client.ACCESS_KEY: "a", s3_client.SECRET_KEY: "b" * 8, **more}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({}, "us-east-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-north-1"}, "eu-north-1"),
        ({"AWS_REGION": ""}, "us-east-1"),
    ],
)
def test_requests_are_signed_for_the_region_of_the_environment(
    environment: dict[str, str], region: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, **environment)
    assert serve(server).answer(Get("x")) == Absent()
    assert server.query("GET")["X-Amz-Credential"].split("/")[2] == region


def test_keys_of_a_session_go_with_its_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys(monkeypatch, **{s3_client.SESSION_TOKEN: "of-a-session"})
    serve(server).check("x/head.json")
    assert server.query("GET")["X-Amz-Security-Token"] == "of-a-session"


def with_token(server: Server, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "token").write_text(TOKEN)
    monkeypatch.setenv(s3_client.TOKEN_FILE, str(folder / "token"))
    monkeypatch.setenv(s3_client.ROLE, "arn:aws:iam::1:role/pipelines")
    monkeypatch.setenv(s3_client.ISSUER, f"http://127.0.0.1:{server.http.server_port}")


def test_a_pods_token_is_exchanged_once_for_credentials_of_its_role(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_token(server, monkeypatch, tmp_path)
    store = serve(server)
    store.check("x/head.json")
    store.check("x/head.json")
    sts, s3 = server.query("POST"), server.query("GET")
    assert (sts["RoleArn"], sts["WebIdentityToken"]) == ("arn:aws:iam::1:role/pipelines", TOKEN)
    assert (s3["X-Amz-Credential"].split("/")[0], s3["X-Amz-Security-Token"]) == ("ASSUMED", "assumed-token")
    assert [verb for verb, _ in server.asked] == ["POST", "GET", "GET"]


def test_a_refused_token_is_named_by_its_file_and_not_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_token(server, monkeypatch, tmp_path)
    server.says = 403
    with pytest.raises(AccessError, match=r"not exchanged for credentials.*/token") as refused:
        serve(server).check("x/head.json")
    assert TOKEN not in str(refused.value)
    assert refused.value.__suppress_context__, "the client's words have the token in them"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<!DOCTYPE html><html><body><p>Log in to this network<br></body></html>",
        b"<html><body>well-formed, and no answer of an issuer</body></html>",
        '<html lang="de"><p>ungültig</html>'.encode("latin-1"),
        b'{"Credentials": {}}',
        ASSUMED.replace("SecretAccessKey", "Key").encode(),
    ],
    ids=["empty", "a proxy", "other XML", "other bytes", "JSON", "half"],
)
def test_who_answers_without_credentials_is_named_with_a_way_out(
    answer: bytes, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the role and of who trusts whom it says nothing."""
    with_token(server, monkeypatch, tmp_path)
    server.credentials = answer
    with pytest.raises(AccessError, match=r"answers without credentials.*127\.0\.0.*AWS_ENDPOINT_URL_STS") as refused:
        serve(server).check("x/head.json")
    assert TOKEN not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("says", [429, 503])
def test_an_issuer_that_starts_again_is_no_refusal(
    says: int, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Credentials are renewed every hour, also while the store is away."""
    with_token(server, monkeypatch, tmp_path)
    server.says = says
    with pytest.raises(UnreachableError, match=f"issuer of credentials answers HTTP status code {says}") as away:
        serve(server).check("x/head.json")
    assert TOKEN not in str(away.value)
    assert len(server.asked) > 1, "it is asked again"


@pytest.mark.parametrize("given", [(), (s3_client.ACCESS_KEY,), (s3_client.SECRET_KEY,)])
def test_half_a_pair_of_keys_is_none_also_beside_a_token(
    given: tuple[str, ...], server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if given:
        with_token(server, monkeypatch, tmp_path)
    for name in given:
        monkeypatch.setenv(name, "x")
    with pytest.raises(SettingsError, match="credentials of the object store are missing"):
        serve(server)


@pytest.fixture
def own_authority(tmp_path: Path) -> Path:
    """Return a certificate for 127.0.0.1 that nobody else has signed."""
    openssl = shutil.which("openssl")
    assert openssl, "openssl is not installed: ca-certificates of Debian brings it"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=store"
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "ca.pem")]
    command = [openssl, *words.split(), "-addext", "subjectAltName=IP:127.0.0.1", *files]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return tmp_path / "ca.pem"


@pytest.mark.parametrize("trusted", [True, False])
def test_a_store_with_a_certificate_of_its_own_is_believed_where_that_is_named(
    trusted: bool, server: Server, own_authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own_authority, own_authority.with_name("key.pem"))
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    with_keys(monkeypatch, **({s3_client.CERTIFICATES: str(own_authority)} if trusted else {}))
    store = serve(server, "https")
    if trusted:
        store.check("x/head.json")
        return
    for ask in (lambda: store.check("x/head.json"), lambda: list(store.names("x/"))):
        with pytest.raises(
            AccessError, match=r"certificate of the object store is refused: self.signed.*AWS_CA_BUNDLE"
        ):
            ask()


@pytest.mark.parametrize("listed", [True, False])
def test_a_store_without_tls_is_named_by_that(listed: bool, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys(monkeypatch)
    store = serve(server, "https")
    with pytest.raises(AccessError, match="the object store does not speak TLS"):
        list(store.names("x/")) if listed else store.check("x/head.json")


def test_a_handshake_that_ends_with_the_server_is_no_refusal() -> None:
    for error in (ssl.SSLEOFError(8, "UNEXPECTED_EOF_WHILE_READING"), ssl.SSLError(1, "TLSV1_ALERT_INTERNAL_ERROR")):
        assert s3_client.not_believed(urllib3.exceptions.SSLError(error), "https://s3") is None


def test_certificates_that_cannot_be_read_are_refused_before_anything_is_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_keys(monkeypatch, **{s3_client.CERTIFICATES: str(tmp_path / "none.pem")})
    with pytest.raises(SettingsError, match=r"certificates .*none\.pem cannot be read.*AWS_CA_BUNDLE"):
        serve(server)


def test_no_signature_is_told_with_an_address() -> None:
    error = urllib3.exceptions.HTTPError("Max retries exceeded with url: /b/k?X-Amz-Signature=ab&X-Amz-Date=c (why)")
    assert s3_client.without_query(error) == "Max retries exceeded with url: /b/k?… (why)"
