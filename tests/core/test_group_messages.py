"""The words of a group keep their meaning on the wire: each has a tag of its own, and comes back as it was."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from octoloom.core.group_messages import (
    Acked,
    Bundle,
    Cast,
    Cut,
    Delay,
    Direct,
    Fetch,
    Fill,
    Forward,
    Have,
    Install,
    MemberToRegister,
    Nak,
    Numbered,
    Packet,
    Part,
    Ready,
    Refused,
    RegisterToMember,
    Reliable,
    Report,
    Resent,
    Stable,
    State,
)
from tests.core.group_table import view_of

BUNDLE = Bundle("A", 1, 2, b"\x00\xff")
CAST = Cast(3, "A", 1, [BUNDLE], [1, 0], True)
INSTALL = Install(view_of("A B", 3), 2, {"A": (4, [6])}, {"A": (4, 2), "B": (0, 0)}, ["B"])
RELIABLE: list[Reliable] = [
    Forward(3, [BUNDLE]),
    Refused(3, "wrong-view", "why"),
    Direct(b"x"),
    Delay(5),
    Report(3, None, {}),
    Report(3, INSTALL, {"A": (4, [6, 7])}, True),
    Fetch(3, [("A", 5)]),
    Fill(3, [CAST]),
    Cut(3, {"A": (4, [6])}),
    Ready(3),
    INSTALL,
    State(3, b"all"),
]
PARTS: list[Part] = [
    CAST,
    Cast(3, "A", 1, [BUNDLE]),
    Resent([CAST, CAST]),
    Nak(3, [("A", 1, 5)]),
    Have(3, [1, 2]),
    Stable(3, [1, 2], [3, 4]),
    Acked(9),
    *(Numbered(at, part) for at, part in enumerate(RELIABLE, 1)),
]


def test_the_examples_leave_no_word_out() -> None:
    assert {type(part) for part in PARTS} == set(get_args(Part))
    assert {type(part) for part in RELIABLE} == set(get_args(Reliable))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(getattr(part, "part", part)).__name__)
def test_a_packet_comes_back_as_it_was(part: Part) -> None:
    packet = Packet("room", "A", "B", [part])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(packet), type=Packet) == packet


def test_each_word_has_a_tag_of_its_own() -> None:
    for words in (get_args(Part), get_args(Reliable), get_args(MemberToRegister), get_args(RegisterToMember)):
        tags = [word.__struct_config__.tag for word in words]
        assert len(set(tags)) == len(tags)


def test_what_must_arrive_cannot_travel_without_a_number() -> None:
    loose = msgspec.msgpack.encode(["room", "A", "B", [Ready(3)]])
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(loose, type=Packet)


def test_a_view_names_its_members_oldest_first() -> None:
    assert view_of("C A B", 1).names == ["C", "A", "B"]
