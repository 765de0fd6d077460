"""How messages become bundles."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.group_outbox import BUNDLE_COUNT_MAX, GroupOutbox
from octoloom.wire.group import decode_bodies

Sent = list[tuple[list[Any], bool]]


def outbox(bundle_max: int = 1000, payload_max: int = 2000) -> tuple[GroupOutbox, Sent]:
    sent: Sent = []

    def send(payload: bytes, count: int, plain: bool) -> None:
        assert len(payload) <= payload_max
        sent.append((decode_bodies(payload, count), plain))

    return GroupOutbox(send, bundle_max, payload_max, "udp"), sent


def test_messages_wait_for_the_flush_and_share_a_bundle() -> None:
    box, sent = outbox()
    for body in ("a", [1], None):
        box.add(body)
    assert (sent, len(box)) == ([], 3)
    box.flush()
    box.flush()
    assert (sent, len(box)) == ([(["a", [1], None], False)], 0)


def test_a_message_that_goes_another_way_ends_the_bundle() -> None:
    box, sent = outbox()
    for body, plain in ((1, False), (2, True), (3, True), (4, False)):
        box.add(body, plain)
    box.flush()
    assert sent == [([1], False), ([2, 3], True), ([4], False)]


def test_bundles_are_cut_where_they_are_large_enough() -> None:
    box, sent = outbox()
    for _ in range(5):
        box.add(bytes(400))
    box.add(bytes(1900))
    box.flush()
    assert [len(bodies) for bodies, _ in sent] == [2, 2, 1, 1]
    box, sent = outbox(1 << 30, 1 << 20)
    for number in range(BUNDLE_COUNT_MAX + 1):
        box.add(number)
    assert len(sent) == 1
    assert len(box) == 1
    box, sent = outbox(1 << 30, 100)  # no bundle is longer than a message may be
    for number in range(200):
        box.add(number)


def test_many_at_once_follow_what_was_sent_before() -> None:
    box, sent = outbox()
    box.add("before")
    box.add_many([1, 2, 3])
    box.add_many([])
    box.add_many((bytes(300),) * 7)
    assert [bodies for bodies, _ in sent[:2]] == [["before"], [1, 2, 3]]
    assert sum(len(bodies) for bodies, _ in sent[2:]) == 7
    assert all(len(bodies) <= 3 for bodies, _ in sent[2:])


def test_what_is_too_long_is_refused_and_changes_nothing() -> None:
    box, sent = outbox()
    box.add("before")
    for refused in (
        lambda: box.add(bytes(2000)),
        lambda: box.add_many([1, bytes(2000)]),
        lambda: box.alone(bytes(2000)),
    ):
        with pytest.raises(UsageError, match=r"over udp has at most 2000 bytes, not 200.: join with transport='tcp'"):
            refused()
    with pytest.raises(UsageError, match="cannot be sent"):
        box.add_many([1, object()])
    assert sent == []
    box.flush()
    assert sent == [(["before"], False)]
