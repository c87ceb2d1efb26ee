"""Each user has what the file says and no more; what users have that it does not name is nobody's business."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclBinding, AclBindingFilter

from effectively_once.errors import AccessError, SettingsError, UnreachableError
from effectively_once.operate import grant as module
from effectively_once.operate.grant import Grants, Right, grant, main
from effectively_once.operate.grants_file import read_grants

OWN = Right(kind="topic", name="orders.", prefixed=True, operations=("READ", "WRITE"))
INPUT = Right(kind="topic", name="events", operations=("READ",))


class Done:
    """An answer that is there."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def result(self) -> Any:
        return self.value


class Broker:
    """Keeps users and rights as a broker does."""

    def __init__(self, code: int | None = None) -> None:
        self.users: dict[str, bytes] = {}
        self.rights: set[AclBinding] = set()
        self.steps: list[str] = []
        self.code = code

    def poll(self, timeout: float) -> None:
        pass

    def alter_user_scram_credentials(self, alterations: list[Any], request_timeout: float) -> dict[str, Done]:
        if self.code is not None:
            raise KafkaException(KafkaError(self.code))
        (one,) = alterations
        assert one.scram_credential_info.iterations >= 4096
        self.users[one.user] = one.password
        return {one.user: Done()}

    def describe_acls(self, asked: AclBindingFilter, request_timeout: float) -> Done:
        return Done([one for one in self.rights if one.principal == asked.principal])

    def create_acls(self, bindings: list[AclBinding], request_timeout: float) -> dict[AclBinding, Done]:
        self.steps.append("create")
        self.rights |= {*bindings}
        return {one: Done() for one in bindings}

    def delete_acls(self, filters: list[AclBindingFilter], request_timeout: float) -> dict[AclBindingFilter, Done]:
        self.steps.append("delete")
        for one in filters:
            key = (one.restype, one.name, one.resource_pattern_type, one.principal, one.operation)
            gone = {
                each
                for each in self.rights
                if (each.restype, each.name, each.resource_pattern_type, each.principal, each.operation) == key
            }
            assert len(gone) == 1, "a filter of a right is of that one alone"
            self.rights -= gone
        return {one: Done() for one in filters}

    def rights_of(self, user: str) -> set[tuple[str, str, str, str]]:
        return {
            (one.restype.name, one.name, one.resource_pattern_type.name, one.operation.name)
            for one in self.rights
            if one.principal == f"User:{user}"
        }


def give(broker: Broker, **users: tuple[Right, ...]) -> list[str]:
    said: list[str] = []
    grant(broker, Grants(bootstrap="b:1", users=users), {user: f"of-{user}" for user in users}, said.append)
    return said


def test_a_user_gets_its_password_and_its_rights() -> None:
    broker = Broker()
    said = give(broker, orders=(OWN, INPUT))
    assert broker.users == {"orders": b"of-orders"}
    assert broker.rights_of("orders") == {
        ("TOPIC", "orders.", "PREFIXED", "READ"),
        ("TOPIC", "orders.", "PREFIXED", "WRITE"),
        ("TOPIC", "events", "LITERAL", "READ"),
    }
    assert "of-orders" not in "".join(said)


def test_again_it_changes_nothing_but_the_password() -> None:
    broker = Broker()
    give(broker, orders=(OWN,))
    before = broker.rights_of("orders")
    assert give(broker, orders=(OWN,))[-1] == "2 rights of 1 users: 0 are new, 0 were taken back"
    assert (broker.rights_of("orders"), broker.steps) == (before, ["create"])


def test_a_right_that_the_file_has_no_more_is_taken_back_after_the_new_ones_are_there() -> None:
    broker = Broker()
    give(broker, orders=(OWN,))
    give(broker, orders=(INPUT,))
    assert broker.rights_of("orders") == {("TOPIC", "events", "LITERAL", "READ")}
    assert broker.steps == ["create", "create", "delete"]


def test_users_that_the_file_does_not_name_keep_what_they_have() -> None:
    broker = Broker()
    give(broker, orders=(OWN,), gateway=(INPUT,))
    give(broker, orders=(OWN,))
    assert broker.rights_of("gateway") == {("TOPIC", "events", "LITERAL", "READ")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "grants.json").write_text(
        json.dumps({"bootstrap": "b:1", "users": {"orders": [OWN.model_dump(mode="json")]}})
    )
    (tmp_path / "orders").write_text("s3cret\n")
    return tmp_path / "grants.json"


def test_the_file_and_the_passwords_beside_it_are_read(file: Path) -> None:
    grants, passwords = read_grants(Grants, file, file.parent)
    assert (grants.users, passwords) == ({"orders": (OWN,)}, {"orders": "s3cret"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: (file.parent / "orders").unlink(), "password of user orders cannot be read"),
        (lambda file: (file.parent / "orders").write_text("\n"), "password of user orders is empty"),
        (lambda file: file.write_text('{"bootstrap": "b:1", "users": {"a": [{"kind": "cluster"}]}}'), "kind"),
        (lambda file: file.unlink(), "grants cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_given(change: Any, says: str, file: Path) -> None:
    change(file)
    with pytest.raises(SettingsError, match=says) as refused:
        read_grants(Grants, file, file.parent)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, AccessError),
        (KafkaError._AUTHENTICATION, AccessError),
        (KafkaError._SSL, UnreachableError),
        (KafkaError._TRANSPORT, UnreachableError),
    ],
)
def test_who_may_not_give_rights_is_told_so_at_once_and_a_broker_that_starts_is_waited_for(
    code: int, kind: type[Exception], file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "AdminClient", lambda _: Broker(code))
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    code_ = main([str(file), f"--passwords={file.parent}", "--deadline-s=0.05"])
    assert code_ == kind.exit_code  # type: ignore[attr-defined]
    assert "s3cret" not in "".join(capsys.readouterr())
