"""The settings of topics as Kafka's admin clients see and change them; those of brokers can only be looked at.

What is known and what is a good value is the core's to say (`topic_admin.SETTINGS`). Some names that clients set out of
habit have one value only here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kio.static.protocol import ResponsePayload

from octoloom.core.log_messages import AdminDone, ConfigureTopic, TopicInfo
from octoloom.core.roster import name_of
from octoloom.core.topic_admin import OFFSETS_TOPIC, SETTINGS
from octoloom.runtime.broker_apis import Handlers, Host, Request
from octoloom.runtime.later import Later
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.compose import compose
from octoloom.wire.kafka.errors import ErrorCode

FIXED = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "compression.type": "producer"}
CHOSEN = "min.insync.replicas"
"""The register gives every new topic one that fits its replicas: who does not name it does not mean to lose it."""

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_OF_TOPIC, _OF_BROKER, _DEFAULT = 1, 4, 5
_STRING, _LONG = 2, 5


class TopicConfigs:
    def __init__(self, host: Host, later: Later) -> None:
        self._host = host
        self._later = later

    def handlers(self) -> Handlers:
        return {
            Api.DESCRIBE_CONFIGS: self._on_describe,
            Api.ALTER_CONFIGS: self._on_alter_all,
            Api.INCREMENTAL_ALTER_CONFIGS: self._on_alter_some,
        }

    # Looking.

    def _on_describe(self, request: Request) -> None:
        asked: Any = request.decode()
        text = getattr(asked, "include_documentation", False)
        results = [self._described(resource, asked.include_synonyms, text) for resource in asked.resources]
        request.answer(compose(request.header, results=results))

    def _described(self, resource: Any, synonyms: bool, text: bool) -> dict[str, Any]:
        result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name, "configs": []}
        name, info = resource.resource_name, self._host.directory.topics.get(resource.resource_name)
        if resource.resource_type == _TOPIC and info is not None:
            configs = topic_configs(info, text)
        elif resource.resource_type == _TOPIC:
            return {**result, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "error_message": f"no topic {name}"}
        elif resource.resource_type == _BROKER and name in ("", str(self._own_number())):
            configs = self._broker_configs()
        else:
            detail = "there are settings of topics, and of the broker that is asked"
            return {**result, "error_code": ErrorCode.INVALID_REQUEST, "error_message": detail}
        keys = resource.configuration_keys
        wanted = [config for config in configs if keys is None or config["name"] in keys]
        if synonyms:
            wanted = [{**config, "synonyms": [{**config, "source": config["config_source"]}]} for config in wanted]
        return {**result, "configs": wanted, "error_code": 0, "error_message": None}

    def _own_number(self) -> int:
        return self._host.directory.ids.get(name_of(self._host.id), -1)

    def _broker_configs(self) -> list[dict[str, Any]]:
        settings = self._host.settings
        values = {
            "broker.id": self._own_number(),
            "auto.create.topics.enable": str(settings.auto_create).lower(),
            "message.max.bytes": settings.message_bytes_max,
            "replica.lag.time.max.ms": settings.lag_ms,
            "socket.request.max.bytes": settings.request_bytes_max,
            "log.flush": settings.sync,
        }
        return [_config(name, str(value), _OF_BROKER, read_only=True) for name, value in values.items()]

    # Changing.

    def _on_alter_all(self, request: Request) -> None:
        """The older way: what is not named goes back to its default, except for what the register chose."""
        asked: Any = request.decode()
        self._later.answer(request, self._alter(request, asked, self._replacement))

    def _replacement(self, resource: Any) -> ConfigureTopic | AdminDone:
        put: dict[str, str] = {}
        for config in resource.configs:
            if config.value is None:
                return _valueless(config.name)
            put[config.name] = config.value
        info = self._host.directory.topics.get(resource.resource_name)
        before = info.config if info is not None else {}
        unset = [name for name in before if name not in put and name != CHOSEN]
        return ConfigureTopic(0, resource.resource_name, put, unset)

    def _on_alter_some(self, request: Request) -> None:
        asked: Any = request.decode()
        self._later.answer(request, self._alter(request, asked, _changes))

    async def _alter(
        self, request: Request, asked: Any, changes_of: Callable[[Any], ConfigureTopic | AdminDone]
    ) -> ResponsePayload:
        async def alter(resource: Any) -> AdminDone:
            change = _refused(resource) or changes_of(resource)
            if isinstance(change, AdminDone):
                return change
            change = ConfigureTopic(0, change.topic, change.put, change.unset, asked.validate_only)
            return await self._host.register.request(change)

        done = await asyncio.gather(*(alter(resource) for resource in asked.resources))
        responses = [
            {
                "error_code": each.error,
                "error_message": each.detail or None,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
            for resource, each in zip(asked.resources, done, strict=True)
        ]
        return compose(request.header, responses=responses)


def _refused(resource: Any) -> AdminDone | None:
    if resource.resource_type != _TOPIC:
        return AdminDone(0, ErrorCode.INVALID_REQUEST, "only topics can be set up: a broker's settings are its options")
    if resource.resource_name == OFFSETS_TOPIC:
        return AdminDone(0, ErrorCode.INVALID_TOPIC, f"{OFFSETS_TOPIC} belongs to the consumer groups")
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        return AdminDone(0, ErrorCode.INVALID_REQUEST, "a setting is named twice")
    unknown = [name for name in names if name not in SETTINGS and name not in FIXED]
    if unknown:
        detail = f"unknown setting {unknown[0]}: know {', '.join(sorted(SETTINGS))}"
        return AdminDone(0, ErrorCode.INVALID_CONFIG, detail)
    return None


def _changes(resource: Any) -> ConfigureTopic | AdminDone:
    put: dict[str, str] = {}
    unset: list[str] = []
    for config in resource.configs:
        if config.config_operation == _DELETE:
            unset.append(config.name)
        elif config.config_operation != _SET:
            return AdminDone(0, ErrorCode.INVALID_REQUEST, "settings are set or deleted: none of them is a list")
        elif config.value is None:
            return _valueless(config.name)
        else:
            put[config.name] = config.value
    return ConfigureTopic(0, resource.resource_name, put, unset)


def _valueless(name: str) -> AdminDone:
    return AdminDone(0, ErrorCode.INVALID_CONFIG, f"{name} has no value: delete it to have its default")


def topic_configs(info: TopicInfo, text: bool = False) -> list[dict[str, Any]]:
    """All settings of a topic, those with their defaults too; `text` says what they are for."""
    configs = []
    for name, setting in SETTINGS.items():
        source = _OF_TOPIC if name in info.config else _DEFAULT
        config = _config(name, info.config.get(name, setting.default), source, kind=_LONG)
        configs.append({**config, "documentation": setting.text if text else None})
    fixed = [_config(name, value, _DEFAULT, read_only=True) for name, value in FIXED.items()]
    return configs + fixed


def _config(name: str, value: str, source: int, *, read_only: bool = False, kind: int = _STRING) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": kind,
        "documentation": None,
    }
