"""Requests go to the handlers of their APIs. What is not served is answered as Kafka does: by hanging up, but for
ApiVersions, which is answered whatever its version is.

A handler that fails has met something that nobody thought of. The client that asked is hung up on and everybody else
is served, unless it was a core that was not sure of itself (an assertion), which ends the broker.
"""

from __future__ import annotations

import logging

from octoloom.core.errors import ProtocolError
from octoloom.runtime.broker_apis import Handlers, Request
from octoloom.runtime.broker_connection import Connection
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.api_versions import encode_api_versions
from octoloom.wire.kafka.apis import Api, parse_header

_log = logging.getLogger("octoloom.broker")


class Dispatch:
    def __init__(self, handlers: Handlers) -> None:
        self._handlers = {Api.API_VERSIONS: on_api_versions, **handlers}

    def take(self, connection: Connection, frame: memoryview) -> bool:
        header = parse_header(frame)
        handler = self._handlers.get(header.api)
        if handler is None:
            raise ProtocolError("unsupported-api", f"API {header.api} is not served here")
        request = Request(connection, header, frame)
        connection.requests.append(request)
        try:
            handler(request)
        except (ProtocolError, DamagedLog, AssertionError):
            raise
        except Exception as error:
            _log.exception("a request of API %d, version %d failed", header.api, header.version)
            raise ProtocolError("failed", f"{type(error).__name__}: {error}") from error
        return True


def on_api_versions(request: Request) -> None:
    request.respond(encode_api_versions(request.header.version, request.header.correlation))
