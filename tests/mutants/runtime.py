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
    Mutant(
        "closed-hears-on",
        "nothing is heard on a connection that was given up",
        "runtime/frames.py",
        """        if self.closed:
            return
        try:
            frames""",
        """        try:
            frames""",
        "tests/runtime/test_frames.py",
    ),
    Mutant(
        "close-loses-the-last-word",
        "what was said before the end is sent",
        "runtime/frames.py",
        """        self._flush()
        if self._transport is not None:
            self._transport.close()
""",
        """        if self._transport is not None:
            self._transport.close()
""",
        "tests/runtime/test_frames.py",
    ),
    Mutant(
        "abort-error-lost",
        "the operator is told why a connection was ended",
        "runtime/frames.py",
        """        self._error = self._error or error
""",
        "",
        "tests/runtime/test_frames.py",
    ),
    Mutant(
        "waiting-not-counted",
        "who lets much lie unread is noticed",
        "runtime/frames.py",
        """        self._waiting_bytes += sum(map(len, frame))
""",
        "",
        "tests/runtime/test_frames.py",
    ),
    Mutant(
        "protocol-error-swallowed",
        "a peer that breaks the protocol is hung up on",
        "runtime/frames.py",
        """            self.abort(error)
""",
        """            self._error = error
""",
        "tests/runtime/test_frames.py",
    ),
    Mutant(
        "backoff-unbounded",
        "pauses grow up to a bound",
        "runtime/backoff.py",
        "self._ms = min(self._ms * 2, self._max_ms)",
        "self._ms = self._ms * 2",
        "tests/runtime/test_backoff.py",
    ),
    Mutant(
        "backoff-in-step",
        "clients do not try again all at once",
        "runtime/backoff.py",
        "wait_s = self._ms / 1000 * random.uniform(0.5, 1.0)",
        "wait_s = self._ms / 1000",
        "tests/runtime/test_backoff.py",
    ),
    Mutant(
        "backoff-reset-forgotten",
        "after a success trouble begins with a short wait",
        "runtime/backoff.py",
        "self._ms = self._first_ms",
        "self._first_ms = self._first_ms",
        "tests/runtime/test_backoff.py",
    ),
    Mutant(
        "writer-resends-under-new-id",
        "what may have been written is not sent under another id",
        "runtime/log_writer.py",
        "for batch in [batch for batch in self._flight if batch.ambiguous or batch.is_pending]:",
        "for batch in [batch for batch in self._flight if batch.is_pending]:",
        "tests/runtime/test_log_writer.py",
    ),
    Mutant(
        "writer-drains-while-mending",
        "nothing new is sent until what failed is sent again",
        "runtime/log_writer.py",
        """        self._scheduled = False
        if self._mending is not None:
            return
""",
        """        self._scheduled = False
""",
        "tests/runtime/test_log_writer.py",
    ),
    Mutant(
        "writer-sequence-not-wrapped",
        "sequence numbers start again after the last",
        "runtime/log_writer.py",
        "self._sequence = (self._sequence + batch.records) % SEQUENCES",
        "self._sequence = self._sequence + batch.records",
        "tests/runtime/test_log_producer.py -k sequence",
    ),
    Mutant(
        "writer-offsets-all-first",
        "each record gets its own offset",
        "runtime/log_writer.py",
        """            offset += entry.records
""",
        """            offset += 1
""",
        "tests/runtime/test_log_producer.py -k 'many_values'",
    ),
    Mutant(
        "producer-buffer-leaks",
        "room comes back when records fail",
        "runtime/log_producer.py",
        """        self._held_bytes -= entry.size
""",
        """        self._held_bytes -= entry.size if not entry.written.exception() else 0
""",
        "tests/runtime/test_log_producer.py -k 'memory or room'",
    ),
    Mutant(
        "producer-overtakes",
        "records wait behind those whose partition is not known yet",
        "runtime/log_producer.py",
        "if partition is None and topic not in self._unplaced:",
        "if partition is None:",
        "tests/runtime/test_log_producer.py -k 'behind or late_one'",
    ),
    Mutant(
        "producer-later-list",
        "the values that are written are those that were given",
        "runtime/log_producer.py",
        """    values = tuple(given)
""",
        """    values = given  # type: ignore[assignment]
""",
        "tests/runtime/test_log_producer.py -k 'those_that_were_given'",
    ),
    Mutant(
        "consumer-reads-beyond-until",
        "a reader ends where it was told to",
        "runtime/log_consumer.py",
        "records = [record for record in records if record.offset < until]",
        "records = [record for record in records if record.offset <= until]",
        "tests/runtime/test_log_consumer.py",
    ),
    Mutant(
        "consumer-swallows-error",
        "an error that stays is raised",
        "runtime/log_consumer.py",
        """        if not error.retriable:
            raise error
""",
        "",
        "tests/runtime/test_log_consumer.py",
    ),
    Mutant(
        "consumer-last-below-start",
        "the last records of a partition are those that there are",
        "runtime/log_consumer.py",
        "offsets[place] = max(start, high - lasts[place])",
        "offsets[place] = high - lasts[place]",
        "tests/runtime/test_log_consumer.py",
    ),
    Mutant(
        "lane-publishes-twice",
        "what waits for the journal is not taken again",
        "runtime/journal_lane.py",
        "elif last is not None and (item.generation, version) <= last:",
        "elif last is not None and (item.generation, version) < last:",
        "tests/runtime/test_journal_lane.py",
    ),
    Mutant(
        "lane-older-generation",
        "what an older generation had is not written any more",
        "runtime/journal_lane.py",
        """                self._queues.pop(space, None)
                self._drop_aside(space)
""",
        """                self._drop_aside(space)
""",
        "tests/runtime/test_journal_lane.py",
    ),
    Mutant(
        "lane-keeps-number",
        "a number that may be taken is not used for other records",
        "runtime/journal_lane.py",
        """                self._tag = None
                raise
""",
        """                raise
""",
        "tests/runtime/test_journal_lane.py",
    ),
    Mutant(
        "lane-overtakes-large",
        "what follows a record that is too large waits behind it",
        "runtime/journal_lane.py",
        "return [letter for letter in letters if letter.item.space not in self._aside]",
        "return list(letters)",
        "tests/runtime/test_journal_lane.py",
    ),
    Mutant(
        "reader-amnesia",
        "a register that lost its store is noticed by what the journal holds",
        "runtime/journal_reader.py",
        "if journaled.generation >= self._beginning[found.chain]:",
        "if journaled.generation > self._beginning[found.chain]:",
        "tests/runtime/test_journal_reader.py",
    ),
    Mutant(
        "reader-missing-records",
        "a journal of which records are missing is not taken over",
        "runtime/journal_reader.py",
        """        if self.records != total:
""",
        """        if self.records > total:
""",
        "tests/runtime/test_journal_reader.py",
    ),
    Mutant(
        "reader-failed-chain-served",
        "a chain whose journal cannot be read does not begin with a part of it",
        "runtime/journal_reader.py",
        """                self._spaces[key] = None
""",
        """                pass
""",
        "tests/runtime/test_journal_reader.py",
    ),
)
