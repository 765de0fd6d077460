"""Whom the coordinator takes a member for."""

from __future__ import annotations

import pytest

from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_standing import Standing


@pytest.mark.parametrize(
    ("code", "member", "is_in"),
    [
        (GroupError.UNKNOWN_MEMBER_ID, "", False),
        (GroupError.ILLEGAL_GENERATION, "ada-1", False),
        (GroupError.REBALANCE_IN_PROGRESS, "ada-1", True),
        (GroupError.NOT_COORDINATOR, "ada-1", True),
    ],
)
def test_a_refusal_says_what_is_not_so_any_more(code: GroupError, member: str, is_in: bool) -> None:
    standing = Standing()
    standing.member, standing.generation = "ada-1", 0
    standing.on_refused(code)
    assert (standing.member, standing.is_in) == (member, is_in)
    standing.on_left()
    assert (standing.member, standing.generation) == ("", -1)
