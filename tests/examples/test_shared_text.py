"""Whoever types in a shared text, and in whatever sequence it arrives: all end with the same text."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest
from examples.filters import shared_text

from octoloom.core.causal import Causal
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import Delivery, OrderContext, ReceivedMessage, SentMessage, message_filters
from octoloom.core.group_messages import Bundle, Cast
from tests.typing_trace import HOSTILE, READER, TYPISTS, trace


class Writer:
    """An app with its text, the transform, and causal order below it, with nothing but bytes in between."""

    def __init__(self, me: str, members: list[str]) -> None:
        self.me = me
        self.text = ""
        self.received: list[ReceivedMessage] = []
        self.sent: list[Cast] = []
        self.pair = message_filters.find("shared-text")(me)
        self.order = Causal(OrderContext(me, members, {}))
        self.pair.send.processor = self._to_order
        self.order.send.processor = self.sent.append
        self.order.receive.processor = self._from_order
        self.pair.receive.processor = self.apply

    def type(self, at: int, delete: int = 0, insert: str = "") -> Cast:
        edit = {"at": at, "delete": delete, "insert": insert}
        self.pair.send.filter(SentMessage(edit))
        self.text = shared_text.applied(self.text, edit)
        return self.sent[-1]

    def take(self, *casts: Cast) -> None:
        for cast in casts:
            self.order.receive.filter(cast)

    def _to_order(self, message: SentMessage) -> None:
        number = len(self.sent) + 1
        bundle = Bundle(self.me, number, 1, msgspec.msgpack.encode(message.body))
        self.order.send.filter(Cast(1, self.me, number, [bundle]))

    def _from_order(self, delivery: Delivery) -> None:
        for bundle in delivery.cast.bundles:
            self.pair.receive.filter(ReceivedMessage(delivery.cast.sender, msgspec.msgpack.decode(bundle.payload)))

    def apply(self, message: ReceivedMessage) -> None:
        self.received.append(message)
        self.text = shared_text.applied(self.text, message.body)


def writers(members: str = "abc") -> list[Writer]:
    return [Writer(me, list(members)) for me in members]


def test_an_edit_finds_its_place_in_what_was_typed_meanwhile() -> None:
    a, b, _ = writers()
    b.take(a.type(0, insert="lunch at noon"))
    one, other = a.type(6, delete=2, insert="before"), b.type(13, insert="?")
    a.take(other)
    b.take(one)
    assert a.text == b.text == "lunch before noon?"
    assert a.received[-1].body == {"at": 17, "delete": 0, "insert": "?"}
    assert [message.body for message in b.received[1:]] == [
        {"at": 6, "delete": 2, "insert": ""},
        {"at": 6, "delete": 0, "insert": "before"},
    ]


def test_what_both_delete_is_deleted_once() -> None:
    a, b, c = writers()
    first = a.type(0, insert="abcdef")
    b.take(first)
    one, other = a.type(1, delete=4), b.type(2, delete=2)
    c.take(first, other, one)
    a.take(other)
    b.take(one)
    assert a.text == b.text == c.text == "af"
    assert a.received == []
    # b and c still had the two beside what was gone.
    assert [message.body for message in b.received[1:]] == [{"at": 1, "delete": 2, "insert": ""}]


def test_a_deletion_around_what_was_typed_meanwhile_leaves_it() -> None:
    a, b, _ = writers()
    b.take(a.type(0, insert="abcd"))
    one, other = a.type(0, delete=4), b.type(2, insert="XY")
    a.take(other)
    b.take(one)
    assert a.text == b.text == "XY"
    assert [message.body for message in b.received[1:]] == [
        {"at": 0, "delete": 2, "insert": ""},
        {"at": 2, "delete": 2, "insert": ""},
    ]


def test_an_app_may_answer_in_the_middle_of_an_edit() -> None:
    """What is replaced comes as two edits. Somebody types at the end as soon as the first of them is there."""
    a, b, c = writers()
    first = a.type(0, insert="abcd")
    b.take(first)

    def answer(message: ReceivedMessage) -> None:
        b.apply(message)
        b.type(len(b.text), insert="!")

    b.pair.receive.processor = answer
    replaced = a.type(1, delete=2, insert="XYZ")
    b.take(replaced)
    assert b.text == "aXYZd!!"
    for other in (a, c):
        other.take(*b.sent)
    c.take(first, replaced)
    assert a.text == c.text == b.text


def test_words_typed_at_one_place_stay_whole() -> None:
    a, b, c = writers()
    ones = [a.type(at, insert=letter) for at, letter in enumerate("tea")]
    others = [b.type(at, insert=letter) for at, letter in enumerate("milk")]
    c.take(*[cast for pair in zip(others, ones, strict=False) for cast in pair], others[3])
    a.take(*others)
    b.take(*ones)
    assert a.text == b.text == c.text == "milktea"


@pytest.mark.parametrize("first_seed", range(0, 300, 100))
def test_all_end_with_the_same_text(first_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many edits at few places, in blocks so small that they split all the time."""
    monkeypatch.setattr(shared_text, "BLOCK_MAX", 4)
    for seed in range(first_seed, first_seed + 100):
        dice = random.Random(seed)
        members = writers("abcde"[: dice.randint(2, 5)])
        flying: list[tuple[Writer, Cast]] = []
        for _ in range(60):
            writer = dice.choice(members)
            at = dice.randint(0, len(writer.text))
            delete = dice.randint(0, min(3, len(writer.text) - at))
            insert = "".join(dice.choices("xyz", k=dice.randint(0, 3)))
            cast = writer.type(at, delete, insert)
            flying += [(other, cast) for other in members if other is not writer]
            while flying and dice.random() < 0.6:
                deliver_one(dice, flying)
        while flying:
            deliver_one(dice, flying)
        assert len({member.text for member in members}) == 1


def deliver_one(dice: random.Random, flying: list[tuple[Writer, Cast]]) -> None:
    writer, cast = flying.pop(dice.randrange(len(flying)))
    writer.take(cast)


# The real trace.


@cache
def typed() -> tuple[list[Cast], str, str]:
    """What the typists' own filters send, each edit typed when its author had seen what its parents say."""
    casts: list[Cast] = []
    typists = [Writer(me, [*TYPISTS, READER]) for me in TYPISTS]
    seen = [0, 0]
    dice = random.Random("typists")

    def catch_up(me: int, end: int) -> None:
        news = typists[1 - me].sent[seen[me] : end]
        typists[me].take(*dice.sample(news, len(news)))
        seen[me] = end

    for transaction, vector in zip(trace().transactions, trace().vectors, strict=True):
        catch_up(transaction.agent, vector[1 - transaction.agent])
        ((at, delete, insert),) = transaction.patches
        casts.append(typists[transaction.agent].type(at, delete, insert))
    for me in (0, 1):
        catch_up(me, len(typists[1 - me].sent))
    return casts, typists[0].text, typists[1].text


def test_both_typists_end_with_the_text_of_the_trace() -> None:
    casts, one, other = typed()
    assert len(casts) == 26_078
    assert [cast.stamp[:2] for cast in casts] == trace().vectors
    assert one == trace().end_content
    assert other == trace().end_content


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_reader_ends_with_the_text_of_the_trace(hostile: Callable[[list[Cast]], list[Cast]]) -> None:
    reader = Writer(READER, [*TYPISTS, READER])
    reader.take(*hostile(typed()[0]))
    assert reader.order.held == 0
    assert reader.text == trace().end_content


# What else may come.


def test_other_messages_pass() -> None:
    a = message_filters.find("shared-text")("a")
    sent: list[SentMessage] = []
    received: list[ReceivedMessage] = []
    a.send.processor, a.receive.processor = sent.append, received.append
    for body in ("hello", {"say": "hello"}, None, [1]):
        a.send.filter(SentMessage(body))
        a.receive.filter(ReceivedMessage("b", body, number=7))
        assert sent[-1] == SentMessage(body)
        assert received[-1] == ReceivedMessage("b", body, number=7)


@pytest.mark.parametrize(
    "edit",
    [
        {"at": 4},
        {"at": -1, "insert": "x"},
        {"at": 2, "delete": 2},
        {"at": 1, "delete": -1},
        {"at": "1"},
        {"at": 1, "insert": 5},
        {"at": 1, "remove": 2},
    ],
)
def test_an_edit_beside_the_text_is_refused(edit: dict[str, Any]) -> None:
    a, b, _ = writers()
    a.type(0, insert="abc")
    with pytest.raises(UsageError):
        a.pair.send.filter(SentMessage(edit))
    b.take(*a.sent, a.type(3, insert="d"))
    assert (len(a.sent), b.text) == (2, "abcd")


@pytest.mark.parametrize(
    "body",
    [
        {"behind": None},
        {"behind": [1, "a"], "clock": "x", "insert": "", "delete": []},
        {"behind": [9, "a"], "clock": 10, "insert": "x", "delete": []},
        {"behind": [2, "a"], "clock": 2, "insert": "x", "delete": []},
        {"behind": None, "clock": 0, "insert": "x", "delete": []},
        {"behind": None, "clock": 4, "insert": "x", "delete": [[1, "a", 10**12]]},
        {"behind": None, "clock": 4, "insert": "x", "delete": [[1, "a", 0]]},
        {"behind": None, "clock": 4, "insert": "x", "delete": [[1, "z", 1]]},
        {"behind": None, "clock": 4, "insert": "x", "delete": [[1, "a", 1], [2, "a", 3]]},
        {"behind": None, "clock": 4, "insert": "x", "delete": [], "more": 1},
        {"behind": None, "clock": 3, "insert": "x", "delete": []},
    ],
)
def test_an_edit_that_cannot_be_is_refused_and_changes_nothing(body: dict[str, Any]) -> None:
    a, b, _ = writers()
    b.take(a.type(0, insert="abc"))
    with pytest.raises(ProtocolError):
        b.pair.receive.filter(ReceivedMessage("a", body))
    b.take(a.type(3, insert="d"))
    assert b.text == "abcd"
    assert b.type(4, insert="e").number == 1


def test_a_text_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_text, "CHARACTERS_MAX", 3)
    a, _, _ = writers()
    a.type(0, insert="abc")
    a.type(0, delete=3)
    with pytest.raises(UsageError, match="at most 3 characters"):
        a.type(0, insert="d")
    assert a.text == ""
