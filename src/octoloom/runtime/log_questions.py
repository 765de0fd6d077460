"""Questions that are asked rarely: kio's requests, asked on a connection or of any broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from kio.static.protocol import RequestPayload, ResponsePayload

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.runtime.log_connection import LogConnection
from octoloom.wire.kafka import cold

if TYPE_CHECKING:
    from octoloom.runtime.log_client import LogClient

Response = TypeVar("Response", bound=ResponsePayload)

PATIENCE_S = 30.0
"""How long a broker may think about a change."""


def ask(
    connection: LogConnection, request: RequestPayload, response: type[Response], patience_s: float = 0.0
) -> asyncio.Future[Response]:
    """Asks one broker. What does not fit into a request is the caller's fault."""

    def encode(correlation: int, client_id: str) -> bytes:
        try:
            return cold.encode_request(request, correlation, client_id)
        except ProtocolError as error:
            raise UsageError(f"that cannot be asked: {error.detail}") from error

    def parse(frame: memoryview) -> Response:
        answer = cold.decode_response(request.__api_key__, request.__version__, frame)
        assert isinstance(answer, response)
        return answer

    return connection.ask_as(request.__api_key__, request.__version__, encode, parse, patience_s)


async def ask_any(client: LogClient, request: RequestPayload, response: type[Response]) -> Response:
    """Asks one broker after the other until one answers, the one that changes topics before all others."""
    await client.cluster.find_brokers()
    return await client.cluster.ask_any(
        lambda broker: ask(broker, request, response, PATIENCE_S), PATIENCE_S, client.cluster.controller
    )
