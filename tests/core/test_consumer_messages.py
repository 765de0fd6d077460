"""The error codes are Kafka's."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from octoloom.core.consumer_messages import GroupError


def test_the_codes_are_those_of_the_wire_protocol() -> None:
    assert {error.name.lower(): error.value for error in GroupError} == {
        error.name.lower(): ErrorCode[error.name.lower()].value for error in GroupError
    }


def test_what_clients_shall_try_again_they_do_try_again() -> None:
    for error in (GroupError.COORDINATOR_LOAD_IN_PROGRESS, GroupError.COORDINATOR_NOT_AVAILABLE):
        assert ErrorCode(error.value).retriable
    for error in (
        GroupError.GROUP_MAX_SIZE_REACHED,
        GroupError.POLICY_VIOLATION,
        GroupError.INVALID_COMMIT_OFFSET_SIZE,
    ):
        assert not ErrorCode(error.value).retriable
