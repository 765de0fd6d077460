"""Our names for the error codes against kio's."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from octoloom.wire.kafka.errors import ErrorCode

SHORTENED = {
    "NOT_LEADER": "NOT_LEADER_OR_FOLLOWER",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "OUT_OF_ORDER_SEQUENCE": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE": "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_TRANSACTION_STATE": "INVALID_TXN_STATE",
}


def test_every_code_has_the_number_that_kafka_gives_it() -> None:
    theirs = {code.name.upper(): int(code) for code in KioErrorCode}
    assert {code.name: int(code) for code in ErrorCode} == {
        code.name: theirs[SHORTENED.get(code.name, code.name)] for code in ErrorCode
    }
