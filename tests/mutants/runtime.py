"""Bugs in the drivers: frames, pauses, the client for topics, the journal, and the register's desks."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RUNTIME = (
    Mutant(
        "late-answer-is-heard",
        "a late answer is not listened to",
        "runtime/log_writer.py",
        """        # An answer that comes after all is not listened to.
        batch.answer = None
""",
        "",
        "tests/runtime/test_log_writer.py",
    ),
    Mutant(
        "any-answer-is-heard",
        "a late answer is not listened to",
        "runtime/log_writer.py",
        "if answer is not batch.answer or answer.cancelled():",
        "if answer.cancelled():",
        "tests/runtime/test_log_writer.py",
    ),
    Mutant(
        "ids-told-to-clients-before-saved",
        "producer ids are unique",
        "runtime/register_kafka.py",
        "if allotted is None or not self._flush():",
        "if allotted is None:",
        "tests/runtime/test_register_kafka.py -k producer_ids",
    ),
)
