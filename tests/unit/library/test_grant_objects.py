"""Each user reads and writes below its own names, and nothing else; who is no more a user of ours is taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import AccessError, SettingsError, UnreachableError
from effectively_once.operate import grant_objects as module
from effectively_once.operate.grant_objects import OURS, Grants, Right, grant, main, policy_of
from effectively_once.operate.grants_file import read_grants
from tests.unit.library.http_store import Handler, serving

BUCKET = "lake"
OWN = Right(bucket=BUCKET, folder="orders/")
LOGS = Right(bucket=BUCKET, folder="spark-events/orders/")


def allows(policy: dict[str, Any], action: str, resource: str, prefixes: Iterable[str] = ()) -> bool:
    """Whether a policy allows a request, as MinIO has it (pkg/policy): a statement with all that it asks for."""
    return any(
        one["Effect"] == "Allow"
        and f"s3:{action}" in one["Action"]
        and any(fnmatchcase(f"arn:aws:s3:::{resource}", pattern) for pattern in one["Resource"])
        and all(_holds(name, wanted, [*prefixes]) for name, wanted in one.get("Condition", {}).items())
        for one in policy["Statement"]
    )


def _holds(name: str, wanted: dict[str, list[str]], prefixes: list[str]) -> bool:
    assert set(wanted) == {"s3:prefix"}
    matched = [any(fnmatchcase(prefix, pattern) for pattern in wanted["s3:prefix"]) for prefix in prefixes]
    return {"StringLike": any, "ForAllValues:StringLike": all}[name](matched)


@pytest.mark.parametrize("action", ["GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"])
def test_a_user_has_all_that_lies_in_its_folders_and_no_object_beside_them(action: str) -> None:
    policy = policy_of([OWN, LOGS])
    for name in ("orders/head.json", "orders/a/b", "spark-events/orders/eventlog_v2_1/x", "spark-events/orders"):
        assert allows(policy, action, f"{BUCKET}/{name}"), name
    for name in ("orders_2/head.json", "ordersx", "clicks/head.json", "spark-events/clicks/x", "spark-events/", "x"):
        assert not allows(policy, action, f"{BUCKET}/{name}"), name
    assert not allows(policy, action, "other/orders/head.json")


def test_it_lists_its_folders_and_never_the_bucket() -> None:
    """A request names no prefix, or two: MinIO takes the first, and looks at all of them."""
    policy = policy_of([OWN, LOGS])
    for prefix in ("orders/", "orders/checkpoints/1/", "spark-events/orders/"):
        assert allows(policy, "ListBucket", BUCKET, [prefix]), prefix
    for prefixes in ([], [""], ["o"], ["orders"], ["orders_2/"], ["spark-events/"], ["", "orders/"], ["orders/", ""]):
        assert not allows(policy, "ListBucket", BUCKET, prefixes), prefixes


def test_it_may_ask_whether_its_bucket_is_there_and_change_nothing_of_it() -> None:
    policy = policy_of([OWN])
    assert allows(policy, "HeadBucket", BUCKET)
    assert not allows(policy, "HeadBucket", "other")
    given = {action for one in policy["Statement"] for action in one["Action"]}
    assert not [
        action for action in given if re.search(r"\*|Policy|Versioning|Lifecycle|(Create|Delete)Bucket", action)
    ]


@pytest.mark.parametrize("folder", ["", "/", "orders", "*/", "orders/*", "orders/?/", "../", "a//", "/a/", "a/./"])
def test_a_right_is_of_a_whole_folder_that_is_named(folder: str) -> None:
    with pytest.raises(ValueError, match="folder"):
        Right(bucket=BUCKET, folder=folder)


class MinIO:
    """Keeps buckets, users and policies as the server does; both clients in one."""

    def __init__(self) -> None:
        self.buckets: set[str] = set()
        self.objects: set[tuple[str, str]] = set()
        self.policies: dict[str, Any] = {}
        self.users: dict[str, dict[str, str]] = {}
        self.steps: list[str] = []

    def bucket_exists(self, bucket: str) -> bool:
        return bucket in self.buckets

    def make_bucket(self, bucket: str) -> None:
        assert bucket not in self.buckets
        self.buckets.add(bucket)

    def put_object(self, bucket: str, name: str, data: Any, length: int) -> None:
        assert bucket in self.buckets
        self.objects.add((bucket, name))

    def policy_add(self, policy_name: str, policy: dict[str, Any]) -> None:
        self.policies[policy_name] = policy

    def user_add(self, access_key: str, secret_key: str) -> None:
        self.steps.append(f"add {access_key}")
        self.users.setdefault(access_key, {"status": "enabled"})["secret"] = secret_key

    def policy_set(self, policy_name: str, user: str) -> None:
        assert policy_name in self.policies
        self.users[user]["policyName"] = policy_name

    def user_list(self) -> str:
        return json.dumps({user: {**facts, "secret": None} for user, facts in self.users.items()})

    def user_remove(self, access_key: str) -> None:
        self.steps.append(f"remove {access_key}")
        del self.users[access_key]


def grants(*users: str) -> Grants:
    policies: dict[str, tuple[Right, ...]] = {"orders": (OWN, LOGS)}
    return Grants(endpoint="http://m:1", policies=policies, users=dict.fromkeys(users, "orders"), folders=(LOGS,))


def give(server: MinIO, wanted: Grants) -> list[str]:
    said: list[str] = []
    grant(server, server, wanted, {user: f"of-{user}" for user in wanted.users}, said.append)
    return said


def test_buckets_folders_users_and_policies_are_made_and_again_nothing_changes() -> None:
    server = MinIO()
    said = give(server, grants("orders-0"))
    assert (server.buckets, server.objects) == ({BUCKET}, {(BUCKET, LOGS.folder)})
    assert server.policies == {f"{OURS}orders": policy_of([OWN, LOGS])}
    assert server.users["orders-0"]["secret"] == "of-orders-0"
    assert "of-orders-0" not in "".join(said)
    before = json.dumps([server.policies, server.users])
    give(server, grants("orders-0"))
    assert json.dumps([server.policies, server.users]) == before


def test_users_of_ours_that_are_no_more_go_after_the_new_ones_have_come_and_others_stay() -> None:
    server = MinIO()
    server.users |= {"somebody": {"policyName": "readwrite"}, "nobody": {}}
    give(server, grants("orders-0", "orders-1"))
    give(server, grants("orders-1", "orders-2"))
    assert set(server.users) == {"somebody", "nobody", "orders-1", "orders-2"}
    assert server.steps[-3:] == ["add orders-1", "add orders-2", "remove orders-0"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").write_text("s3cret\n")
    path = tmp_path / "grants.json"
    path.write_text(grants("orders-0").model_dump_json())
    return path


def test_a_user_of_a_policy_that_is_not_there_is_refused(file: Path) -> None:
    file.write_text(json.dumps({"endpoint": "http://m:1", "policies": {}, "users": {"orders-0": "orders"}}))
    with pytest.raises(SettingsError, match="policies that are not there: orders"):
        read_grants(Grants, file, file.parent)


class Alike(Handler):
    """Answers every request alike."""

    status = 403

    def respond(self) -> None:
        body = b'{"Code": "AccessDenied"}' if "/admin/" in self.path else b"<Error><Code>AccessDenied</Code></Error>"
        self.answer(self.status, body)


@pytest.fixture(params=["bucket", "admin"])
def _asked_first(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that refuses the first question, or the first one about users."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "owner")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "owners-secret")
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    if request.param == "admin":
        server = MinIO()
        monkeypatch.setattr(module, "client", lambda *_, **__: server)


@pytest.mark.usefixtures("_asked_first")
@pytest.mark.parametrize(("status", "kind"), [(403, AccessError), (503, UnreachableError)])
def test_who_may_not_give_rights_is_told_so_at_once_and_a_store_that_starts_is_waited_for(
    status: int, kind: type[AccessError | UnreachableError], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(type("One", (Alike,), {"status": status})) as address:
        file.write_text(grants("orders-0").model_copy(update={"endpoint": address}).model_dump_json())
        code = main([str(file), f"--passwords={file.parent}", "--deadline-s=0.05"])
    assert code == kind.exit_code
    told = "".join(capsys.readouterr())
    assert address in told
    assert not [secret for secret in ("s3cret", "owners-secret") if secret in told]
