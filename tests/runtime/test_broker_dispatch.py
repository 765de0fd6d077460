"""Requests that go to handlers, and handlers that fail."""

from __future__ import annotations

from collections import deque

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.runtime.broker_apis import Request
from octoloom.runtime.broker_dispatch import Dispatch
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.apis import SERVED, Api
from octoloom.wire.kafka.client_messages import encode_frame
from octoloom.wire.kafka.errors import ErrorCode


class Line:
    """As much of a connection as a request needs."""

    client_host = "here"
    closed = False

    def __init__(self) -> None:
        self.requests: deque[Request] = deque()
        self.answered: list[Request] = []

    def on_answered(self, request: Request) -> None:
        self.answered.append(request)


def ask(dispatch: Dispatch, api: int, version: int) -> Line:
    line = Line()
    dispatch.take(line, memoryview(b"".join(encode_frame(api, version, 7, b"x", (bytes(4),))))[4:])  # type: ignore[arg-type]
    return line


def test_a_request_goes_to_its_handler_and_waits_for_its_answer() -> None:
    heard: list[Request] = []
    line = ask(Dispatch({Api.METADATA: heard.append}), Api.METADATA, 1)
    assert list(line.requests) == heard
    assert (heard[0].header.correlation, heard[0].client_host, heard[0].answered) == (7, "here", False)
    heard[0].respond(b"answer")
    assert (line.answered, heard[0].response) == (heard, [b"answer"])
    with pytest.raises(AssertionError):
        heard[0].respond(b"again")


@pytest.mark.parametrize(("api", "version"), [(Api.FETCH, 4), (999, 0), (Api.METADATA, 99)])
def test_what_is_not_served_is_refused(api: int, version: int) -> None:
    with pytest.raises(ProtocolError, match="unsupported"):
        ask(Dispatch({Api.METADATA: lambda _: None}), api, version)


@pytest.mark.parametrize("version", [0, 3, SERVED[Api.API_VERSIONS].last, 50])
def test_versions_are_always_told(version: int) -> None:
    [request] = ask(Dispatch({}), Api.API_VERSIONS, version).answered
    assert request.response is not None
    error = int.from_bytes(request.response[0][8:10], "big")
    assert error == (ErrorCode.UNSUPPORTED_VERSION if version == 50 else 0)


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (KeyError("x"), ProtocolError),
        (ProtocolError("a", "b"), ProtocolError),
        (DamagedLog("path", 3), DamagedLog),
        (AssertionError("x"), AssertionError),
    ],
)
def test_a_handler_that_fails_ends_the_connection_or_more(raised: Exception, seen: type[Exception]) -> None:
    def fail(_: Request) -> None:
        raise raised

    with pytest.raises(seen):
        ask(Dispatch({Api.METADATA: fail}), Api.METADATA, 1)
