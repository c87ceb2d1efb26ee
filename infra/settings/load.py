"""From configuration to settings. `load` is pure; `read` is the only reader of pulumi.Config."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pulumi
from pulumi.runtime.config import CONFIG, get_config, is_config_secret
from pydantic import BaseModel, ValidationError

from infra.settings.exposure import contradictions
from infra.settings.field_types import is_pinned
from infra.settings.images import JOB_IMAGE
from infra.settings.pipeline import Pipeline
from infra.settings.profiles import DEFAULT, PROFILES
from infra.settings.refused import SettingsError
from infra.settings.result_store import RESERVED
from infra.settings.sealed import Where, sealed_values, set_apart
from infra.settings.section import PROJECT
from infra.settings.security import ALL, SERVERS, Security
from infra.settings.settings import Settings

IMAGES_VARIABLE = "EFFECTIVELY_ONCE_IMAGES"
CHECKOUT = Path(__file__).resolve().parents[2]
PLAIN_TEXT = ("profile", "namespace", "context", "confirm_context", "pipeline_prefix", "architecture")


def explain(wrong: ValidationError, where: str = "") -> list[str]:
    """Return one line per error: field, what is allowed, the value; `where` is put before the field's name."""
    lines = []
    for error in wrong.errors(include_url=False):
        field = ".".join([*([where] if where else []), *(str(part) for part in error["loc"])])
        match error["type"]:
            case "missing":
                line = "has to be set"
            case "extra_forbidden":
                line = f"no such setting; allowed are {', '.join(_siblings(error['loc'])) or 'none'}"
            case "value_error":
                line = error["msg"].removeprefix("Value error, ")
            case _:
                line = f"{error['msg']}, got {error['input']!r}"
        lines.append(f"{field}: {line}")
    return lines


def _siblings(location: tuple[int | str, ...]) -> list[str]:
    """Return the names that are allowed where a setting with an unknown name was found."""
    model: type[BaseModel] = Settings
    for part in location[:-1]:
        if model is Settings and part == "pipelines":
            model = Pipeline
        elif str(part) in model.model_fields:
            kinds = get_args(model.model_fields[str(part)].annotation) or (model.model_fields[str(part)].annotation,)
            model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), model)
    return [*model.model_fields]


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, `over` winning field by field at every depth."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def load(
    config: Mapping[str, object], images: Mapping[str, str], sealed: Mapping[Where, str] | None = None
) -> Settings:
    """Return the settings of a stack.

    Args:
        config: values by key, without the project's name.
        images: references by image, which the key `images` overrides one by one.
        sealed: which of the values are secret, with their ciphertexts.

    Raises:
        SettingsError: with all that is wrong.

    """
    config = set_apart(config, sealed or {})
    profile = config.get("profile", DEFAULT)
    if not isinstance(profile, str) or profile not in PROFILES:
        raise SettingsError([f"profile: one of {', '.join(PROFILES)} is allowed, got {profile!r}"])
    data = merge(PROFILES[profile], {k: v for k, v in config.items() if k not in ("images", "pipelines")})
    if "pipeline_defaults" in config:
        raise SettingsError(["pipeline_defaults: part of the profiles; set fields below pipelines.<name> instead"])
    defaults = data.pop("pipeline_defaults", {})
    given_images = config.get("images", {})
    if not images and not given_images:
        raise SettingsError(
            [f"images: none are known; `eval $(make env)` sets {IMAGES_VARIABLE}, or name them in the stack's config"]
        )
    data["images"] = _images(merge(images, given_images)) if isinstance(given_images, Mapping) else given_images
    data["profile"] = profile
    named = data.get("security", {})
    data["security"] = resolve_security(data)
    data["pipelines"] = dict(_pipelines(data, config.get("pipelines", data.get("pipelines", {})), defaults))
    try:
        settings = Settings.model_validate(data)
    except ValidationError as wrong:
        raise SettingsError(explain(wrong)) from wrong
    settings = settings.model_copy(update={"security": settings.security.as_named(named)})
    ways = config.get("external_access", {})
    wrong_ones = [
        *_clashes(settings),
        *_contradictions(settings),
        *_standby_clashes(settings),
        *_missing(settings),
        *_unpinned(settings),
        *contradictions(settings, ways if isinstance(ways, Mapping) else ()),
    ]
    if wrong_ones:
        raise SettingsError(wrong_ones)
    return settings


def resolve_security(data: Mapping[str, Any]) -> Any:
    """Return the section `security` with what its level says; what somebody else runs has its own."""
    given = data.get("security", {})
    if not isinstance(given, Mapping) or given.get("level", ALL) != ALL:
        return given
    servers = {name: data.get(name) or {} for name in SERVERS}
    ours = {name: True for name, one in servers.items() if isinstance(one, Mapping) and not one.get("external")}
    return {"spark": True, **ours, **given}


def _images(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Gather images of users' wheels, which stand among ours as `job-<name>`."""
    jobs = {name.removeprefix(JOB_IMAGE): value for name, value in flat.items() if name.startswith(JOB_IMAGE)}
    return {name: value for name, value in flat.items() if not name.startswith(JOB_IMAGE)} | {"jobs": jobs}


def _pipelines(
    data: Mapping[str, Any], given: object, defaults: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield pipelines with what follows from name, prefix and platform filled in; a list has `name` in each item."""
    named: list[tuple[object, object]]
    if isinstance(given, Mapping):
        named = [*given.items()]
    elif isinstance(given, list) and all(isinstance(item, Mapping) and "name" in item for item in given):
        named = [(item["name"], {k: v for k, v in item.items() if k != "name"}) for item in given]
    else:
        raise SettingsError([f"pipelines: settings by name, or a list of settings with `name`, got {given!r}"])
    names = [str(name) for name, _ in named]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError([f"pipelines.{name}: the name is there twice; names are identities" for name in twice])
    prefix = str(data.get("pipeline_prefix", ""))
    store = data.get("object_store")
    bucket = store.get("bucket", PROJECT) if isinstance(store, Mapping) else PROJECT
    for name, value in named:
        if not isinstance(value, Mapping | None):
            raise SettingsError([f"pipelines.{name}: settings of the pipeline, got {value!r}"])
        derived = {
            "identity": f"{prefix}{name}",
            **_job(str(name), value or {}),
            "topic": f"{prefix}events",
            "bucket": bucket,
        }
        yield str(name), merge(merge(derived, defaults), value or {})


def _job(name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the job that a name stands for; whoever names an image has to say what it runs."""
    if "wheel" in given:
        return {"job": str(given["wheel"]).replace("-", "_")}
    return {} if "image" in given else {"job": f"effectively_once_jobs.{name}"}


def _contradictions(settings: Settings) -> Iterator[str]:
    """Yield what the platform's settings ask for and others of them do not give."""
    if settings.security.kafka and settings.kafka.external is not None:
        yield "security.kafka: it is that of our own broker; kafka.security is that of kafka.external; leave it out"
    if settings.security.object_store and settings.object_store.external is not None:
        yield "security.object_store: it is that of our own store; object_store.external has its own keys; leave it out"
    if settings.security.result_store and settings.result_store.external is not None:
        yield "security.result_store: it is that of our own server; result_store.external has its own; leave it out"
    if settings.kafka.users and not settings.security.kafka:
        yield "kafka.users: nobody logs in at the broker; set security.kafka, or leave it out"
    if settings.monitoring.enabled and not settings.monitoring.operator_objects and not settings.images.monitoring:
        yield "monitoring.enabled: no image of it is known; `make images MONITORING=1` builds it"
    if settings.kafka.security is not None and settings.kafka.external is None:
        yield "kafka.security: it is that of an external broker, and kafka.external names none; leave it out"


def _missing(settings: Settings) -> Iterator[str]:
    """Yield what pipelines ask for and the platform does not have."""
    security = settings.kafka.security
    for name, one in settings.pipelines.items():
        if one.wheel is not None and one.image is not None:
            yield f"pipelines.{name}.image: the image is that of the wheel {one.wheel!r} already; set one of the two"
        elif one.wheel is not None and one.wheel not in settings.images.jobs:
            there = ", ".join(settings.images.jobs) or "none"
            yield f"pipelines.{name}.wheel: no image has {one.wheel!r} (there: {there}); `make images WHEEL=` makes one"
        if security is not None and security.has_login:
            if one.kafka_credentials_secret is None and security.credentials_secret is None:
                yield (
                    f"kafka.security.credentials_secret: protocol {security.protocol} needs a login; set it, or "
                    f"pipelines.{name}.kafka_credentials_secret"
                )
        elif one.kafka_credentials_secret is not None:
            yield f"pipelines.{name}.kafka_credentials_secret: the broker asks for no login; leave it out"
        if one.result_store and not settings.result_store.enabled:
            yield f"pipelines.{name}.result_store: there is none; set result_store.enabled, or leave this out"


def _unpinned(settings: Settings) -> Iterator[str]:
    """Yield images without a digest, where digests are asked for."""
    if not settings.security.pinned_images:
        return
    images = {f"images.{name}": reference for name, reference in settings.images.references().items()}
    images |= {f"pipelines.{name}.image": one.image for name, one in settings.pipelines.items() if one.image}
    for where, reference in images.items():
        if not is_pinned(reference):
            yield (
                f"{where}: security.pinned_images asks for a digest (name:tag@sha256:...), got {reference!r}; "
                "`make images PUSH=` names ours so"
            )


def _standby_clashes(settings: Settings) -> Iterator[str]:
    """Yield pipelines that have the name of another one's second application."""
    standbys = {f"{one.identity}_standby".replace("_", "-"): one for one in settings.pipelines.values() if one.standby}
    for name, one in settings.pipelines.items():
        if (other := standbys.get(one.identity.replace("_", "-"))) is not None:
            yield (
                f"pipelines.{name}.identity: {one.identity!r} is the name of the standby of {other.identity!r}; "
                "name another"
            )


def _clashes(settings: Settings) -> Iterator[str]:
    """Yield what no two pipelines may share, and topics that lie among the outputs of a pipeline."""
    pipelines = [*settings.pipelines.items()]
    has_roles = settings.security.result_store
    history_has_keys = settings.security.object_store and settings.history_server.enabled
    for index, (name, one) in enumerate(pipelines):
        # The Secret of a pipeline's keys has its identity's name, with dashes.
        if history_has_keys and one.identity == "history_server":
            yield (
                f"pipelines.{name}.identity: {one.identity!r} has the Secret of the keys of the history server "
                "(security.object_store gives it some); name another, or set history_server.enabled false"
            )
        if has_roles and one.result_store and (one.identity in RESERVED or one.identity.startswith("pg_")):
            yield (
                f"pipelines.{name}.identity: {one.identity!r} is a name of PostgreSQL's or of the platform's own, and "
                "security.result_store makes a role and a schema of it; name another"
            )
        if one.identity.replace("_", "-") in {user.replace("_", "-") for user in settings.kafka.users}:
            yield f"kafka.users: {one.identity!r} is the login of the pipeline {name}; name another"
        for user, rights in settings.kafka.users.items():
            if shown := [topic for topic in rights.writes if topic.startswith(f"{one.identity}.")]:
                yield (
                    f"kafka.users.{user}.writes: {shown[0]!r} lies among the output topics of {name} "
                    f"({one.identity}.*), which it alone may write; leave it out"
                )
        for topic, (writer, other) in product(one.topics, pipelines):
            if topic.startswith(f"{other.identity}."):
                yield (
                    f"pipelines.{name}.topic: {topic!r} lies among the output topics of {writer} "
                    f"({other.identity}.*); name a topic that begins otherwise"
                )
        for before, other in pipelines[:index]:
            if one.identity.replace("_", "-") == other.identity.replace("_", "-"):
                yield (
                    f"pipelines.{name}.identity: {one.identity!r} is the identity of {before} too: topics, bucket "
                    f"folder ({one.bucket}/{one.identity}), transactional ids and groups would be shared; name another"
                )
            elif one.create_topic and other.create_topic and one.partitions != other.partitions:
                yield from (
                    f"pipelines.{name}.partitions: {before} makes topic {topic!r} with {other.partitions}, "
                    f"got {one.partitions}; give both the same number"
                    for topic in one.topics
                    if topic in other.topics
                )


def images_from(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the image references of the file that EFFECTIVELY_ONCE_IMAGES names, none without it.

    Raises SettingsError when the file cannot be read.
    """
    name = environment.get(IMAGES_VARIABLE)
    if not name:
        return {}
    try:
        found = json.loads(Path(name).read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(
            [f"images: {name} (from {IMAGES_VARIABLE}) cannot be read: {error}; `make images` writes it"]
        ) from error
    if not isinstance(found, dict):
        raise SettingsError([f"images: {name} (from {IMAGES_VARIABLE}) holds no references by name"])
    # Earlier versions wrote a digest among the references.
    return {key: reference for key, reference in found.items() if key != "wheel-digest"}


def plain(key: str, text: str) -> object:
    """Return a configured value: text for keys that are text, else what the text says as JSON, else the text."""
    if key in PLAIN_TEXT:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_security(config: Mapping[str, str]) -> Security:
    """Return what a stack wants encrypted and pinned, of its whole configuration: values by `project:key`.

    A program has its own keys from `pulumi.Config`; whoever else asks is handed all of them. Raises SettingsError.
    """
    given = {
        key.removeprefix(f"{PROJECT}:"): plain(key, text) for key, text in config.items() if key.startswith(PROJECT)
    }
    profile = PROFILES.get(config.get(f"{PROJECT}:profile", DEFAULT), {})
    try:
        return Security.model_validate(resolve_security(merge(profile, given)))
    except ValidationError as wrong:
        raise SettingsError(explain(wrong, "security")) from wrong


def read(environment: Mapping[str, str] = os.environ, folder: Path = CHECKOUT) -> Settings:
    """Return the settings of the stack that is being deployed; `folder` has its file.

    Raises SettingsError, also for a mistyped key.
    """
    # Pulumi answers for a key that is asked for; a mistyped one shows only in the whole map.
    given = [key.split(":", 1)[1] for key in CONFIG.get() if key.startswith(f"{PROJECT}:")]
    asked = dict.fromkeys([*given, *Settings.model_fields])
    config = {key: plain(key, text) for key in asked if (text := get_config(f"{PROJECT}:{key}")) is not None}
    secret = [key for key in config if is_config_secret(f"{PROJECT}:{key}")]
    return load(config, images_from(environment), sealed_values(secret, folder / f"Pulumi.{pulumi.get_stack()}.yaml"))
