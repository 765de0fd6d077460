"""The records of the journal's bookmarks, in the topic `journal-bookmarks`.

A bookmark is a *run*: a `start` for each space that the chain has in one partition of the journal, as the journal has
them, with the run's name as one more header. Behind it lies a *list*, without a key: the newest bookmark of each chain
in this partition. So whoever finds the last list knows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.wire.journal import Headers, JournalRecord, encode

LIST_HEADERS: Headers = (("kind", b"bookmarks"),)
RUN = "run"

Count = Annotated[int, msgspec.Meta(ge=0)]


class Bookmark(msgspec.Struct, frozen=True):
    run: str
    """Its name. The mark in the journal that it was made at has the same."""
    offset: Count
    """Where that mark lies: all that is before it is in the bookmark."""
    first: Count
    """Where the run begins,"""
    spaces: Count
    """and how many spaces it has."""
    size: Count
    """What they take, in bytes."""


class _List(msgspec.Struct, frozen=True, tag_field="kind", tag="bookmarks"):
    chains: dict[str, Bookmark]
    at_ms: Count


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(_List)


def encode_start(run: str, record: JournalRecord) -> tuple[bytes, bytes, Headers]:
    """The key, the value and the headers of one space in a run."""
    key, value, headers = encode(record)
    return key, value, (*headers, (RUN, run.encode()))


def run_of(headers: Headers) -> str:
    """The run that a record belongs to; empty if to none."""
    found = dict(headers).get(RUN)
    return found.decode(errors="replace") if found else ""


def encode_list(chains: Mapping[str, Bookmark], at_ms: int) -> tuple[bytes, Headers]:
    return _encode(_List(dict(chains), at_ms)), LIST_HEADERS


def is_list(key: bytes | None, headers: Headers) -> bool:
    return key is None and LIST_HEADERS[0] in headers


def decode_list(value: bytes | None) -> dict[str, Bookmark]:
    try:
        return _decoder.decode(value or b"").chains
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"this is no list of bookmarks: {error}") from None
