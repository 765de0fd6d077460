"""Messages of cold APIs made of plain values, whatever the version.

The versions of a response differ by a field here and there. A handler says all that it knows, as nested dicts and
lists; what a version does not have is left out, and what a handler does not say has the schema's default. Error codes
are plain numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from octoloom.wire.kafka.apis import RequestHeader

Values = Mapping[str, Any]

_ALWAYS: Values = {"throttle_time": timedelta(0)}
"""Nobody is slowed down here."""


def compose(header: RequestHeader, **values: Any) -> ResponsePayload:
    """The response to the request of this header."""
    entity: ResponsePayload = _build(_schema(header.api, header.version), {**_ALWAYS, **values})
    return entity


def compose_request(api: int, version: int, **values: Any) -> RequestPayload:
    """A request, for a client."""
    entity: RequestPayload = _build(load_request_schema(api, version), values)
    return entity


@cache
def _schema(api: int, version: int) -> type[ResponsePayload]:
    return load_response_schema(api, version)


def _build(kind: type[Any], values: Values) -> Any:
    plan = _plan(kind)  # type: ignore[arg-type]  # mypy does not see that types can be hashed
    return kind(**{name: convert(values[name]) for name, convert in plan.items() if name in values})


@cache
def _plan(kind: type[Any]) -> dict[str, Callable[[Any], Any]]:
    """How each field of an entity is made of a plain value."""
    hints = get_type_hints(kind)
    return {field.name: _converter(hints[field.name]) for field in dataclasses.fields(kind)}


def _converter(hint: Any) -> Callable[[Any], Any]:
    if get_origin(hint) in (Union, UnionType):
        [inner] = [each for each in get_args(hint) if each is not type(None)]
        convert = _converter(inner)
        return lambda value: None if value is None else convert(value)
    if get_origin(hint) is tuple:
        each = _converter(get_args(hint)[0])
        return lambda values: _tuple(each, values)
    if dataclasses.is_dataclass(hint):
        return lambda values: _build(hint, values)  # type: ignore[arg-type]  # a type, not an instance
    return KioErrorCode if hint is KioErrorCode else _same


def _tuple(convert: Callable[[Any], Any], values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(convert(value) for value in values)


def _same(value: Any) -> Any:
    return value
