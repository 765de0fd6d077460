"""What the register keeps of groups: each step says what is durable after it, and it reads back as it was written."""

from __future__ import annotations

import msgspec

from octoloom.core.group_messages import GroupView, MemberAddress
from octoloom.core.group_saved import GroupsSaved, Persist, SavedGroup

ROOM = SavedGroup(GroupView("room", 3, "causal", [MemberAddress("ada#1", "127.0.0.1:1", "udp", 7)]), {"bob": 2})


def test_a_step_replaces_adds_and_deletes_and_leaves_the_rest_alone() -> None:
    before = GroupsSaved(3, {"room": ROOM, "hall": ROOM})
    newer = msgspec.structs.replace(ROOM, departed={})
    after = before.after(Persist(6, {"room": newer, "hall": None, "yard": ROOM, "never": None}))
    assert after == GroupsSaved(6, {"room": newer, "yard": ROOM})
    assert before == GroupsSaved(3, {"room": ROOM, "hall": ROOM})


def test_a_group_reads_back_as_it_was_written() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ROOM), type=SavedGroup) == ROOM
