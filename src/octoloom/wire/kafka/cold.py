"""Every API that is not hot: requests and responses as kio's entities.

A broker decodes the request of a frame and encodes its response; our own client does the opposite, for the hot APIs
too. An entity knows its API and version, and with them which header stands in front of it.

The entities' error codes are kio's; `error_code` makes one of ours.
"""

from __future__ import annotations

import struct
from functools import cache
from io import BytesIO

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer
from kio.serial.errors import SerialError
from kio.static.protocol import Payload, RequestPayload, ResponsePayload

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.apis import Api, RequestHeader
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.primitives import CLASSIC, UNREADABLE, Read, malformed, skip_tags
from octoloom.wire.kafka.schema_reader import reader_of

_REQUEST_HEAD = struct.Struct(">ihhi")
_RESPONSE_HEAD = struct.Struct(">ii")
_UNWRITABLE = (SerialError, struct.error, ValueError, OverflowError)


def error_code(code: int) -> KioErrorCode:
    """The code as kio's entities want it."""
    return KioErrorCode(code)


def decode_request(header: RequestHeader, frame: memoryview) -> RequestPayload:
    """The request whose body is in this frame."""
    try:
        return _request_reader(header.api, header.version)(frame, header.body_at)[0]
    except UNREADABLE as error:
        raise malformed(f"not a request of API {header.api}, version {header.version}: {error}") from error


def encode_response(header: RequestHeader, response: ResponsePayload) -> bytes:
    """The whole response to the request of this header, its length in front."""
    assert (response.__api_key__, response.__version__) == (header.api, header.version)
    tags = b"\x00" if response.__header_schema__.__flexible__ else b""
    body = _encode(response)
    return _RESPONSE_HEAD.pack(len(body) + len(tags) + 4, header.correlation) + tags + body


def encode_request(request: RequestPayload, correlation: int, client_id: str | None) -> bytes:
    """The whole request, its length in front."""
    tags = b"\x00" if request.__header_schema__.__flexible__ else b""
    body = _encode(request)
    client = CLASSIC.write_string(client_id)
    size = len(client) + len(tags) + len(body) + 8
    return _REQUEST_HEAD.pack(size, request.__api_key__, request.__version__, correlation) + client + tags + body


def decode_response(api: int, version: int, frame: memoryview) -> ResponsePayload:
    """The response to a request of this API and version. `correlation_of` says to which one it belongs.

    A broker that does not know the version of an ApiVersions request answers in version 0; so does this.
    """
    try:
        if api == Api.API_VERSIONS and int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        schema, read = _response_reader(api, version)
        at = skip_tags(frame, 4) if schema.__header_schema__.__flexible__ else 4
        return read(frame, at)[0]
    except UNREADABLE as error:
        raise malformed(f"not a response of API {api}, version {version}: {error}") from error


def _encode(entity: Payload) -> bytes:
    body = BytesIO()
    try:
        entity_writer(type(entity))(body, entity)
    except _UNWRITABLE as error:
        raise ProtocolError("unwritable", f"{type(entity).__name__} does not fit on the wire: {error}") from error
    return body.getvalue()


@cache
def _request_reader(api: int, version: int) -> Read[RequestPayload]:
    try:
        return reader_of(load_request_schema(api, version))
    except KioIndexError as error:
        raise ProtocolError("unsupported-version", str(error)) from error


@cache
def _response_reader(api: int, version: int) -> tuple[type[ResponsePayload], Read[ResponsePayload]]:
    try:
        schema = load_response_schema(api, version)
    except KioIndexError as error:
        raise ProtocolError("unsupported-version", str(error)) from error
    return schema, reader_of(schema)
