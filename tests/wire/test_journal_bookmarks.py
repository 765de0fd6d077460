"""The records of bookmarks: a start for each space, and lists that name the runs."""

from __future__ import annotations

import msgspec
import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.event import JournalEntry
from octoloom.core.journal import JournalReader
from octoloom.wire.journal import JournalRecord, decode, encode_mark, is_mark, maker_of
from octoloom.wire.journal_bookmarks import (
    LIST_HEADERS,
    Bookmark,
    decode_list,
    encode_list,
    encode_start,
    is_list,
    run_of,
)
from tests.core.simulated_journals import SEEDS, simulated_journals


@pytest.mark.parametrize("seed", SEEDS)
def test_a_space_comes_back_as_it_was(seed: int) -> None:
    for space, records in simulated_journals(seed).items():
        reader = JournalReader(space)
        for generation, entry in records:
            reader.read(generation, entry)
        snapshot = msgspec.structs.replace(reader.space.snapshot(), journaled=0, backlog=[])
        entry = JournalEntry(snapshot.version, None, [], start=snapshot)
        record = JournalRecord(space, "c", reader.generation, 0, 17, entry)
        key, value, headers = encode_start("abc", record)
        assert decode(key, value, headers) == record
        assert run_of(headers) == "abc"


def test_what_belongs_to_no_run_says_so() -> None:
    assert run_of(()) == run_of((("run", None),)) == run_of((("kind", b"start"),)) == ""
    assert run_of((("run", b"\xff"),)) == "\ufffd"


def test_a_list_names_the_newest_of_each_chain() -> None:
    chains = {"one": Bookmark("abc", 40, 7, 3, 999), "two": Bookmark("def", 12, 0, 0, 0)}
    value, headers = encode_list(chains, 17)
    assert decode_list(value) == chains
    assert is_list(None, headers)
    assert not is_list(b"space", headers)
    assert not is_mark(None, headers)
    assert headers == LIST_HEADERS


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"no json",
        b"[]",
        b"\xff",
        b'{"kind":"mark","chains":{},"at_ms":1}',
        b'{"kind":"bookmarks","chains":{"c":{"run":"a","offset":-1,"first":0,"spaces":0,"size":0}},"at_ms":1}',
        b'{"kind":"bookmarks","chains":{"c":{"run":"a"}},"at_ms":1}',
        b'{"kind":"bookmarks","chains":' + b'{"c":' * 5000,
    ],
)
def test_what_is_no_list_is_refused(value: bytes | None) -> None:
    with pytest.raises(ProtocolError, match="no list of bookmarks"):
        decode_list(value)


def test_a_mark_names_who_wrote_it() -> None:
    value, headers = encode_mark({"c": 2}, 17, "abc")
    assert maker_of(None, value, headers) == "abc"
    assert maker_of(b"space", value, headers) == ""
    assert maker_of(None, value, ()) == ""
    for other in (None, b"", b"nonsense", b"[]", b'{"by":7}', b'{"kind":"mark"}'):
        assert maker_of(None, other, headers) == ""
