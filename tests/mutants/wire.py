"""Bugs in what is said on the wire: frames and record batches."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WIRE = (
    Mutant(
        "frame-bound-off",
        "a frame has so many bytes at most",
        "wire/framing.py",
        """        if length > self._frame_max:
""",
        """        if length > self._frame_max + HEADER_BYTES:
""",
        "tests/wire/test_framing.py",
    ),
    Mutant(
        "frame-buffer-reused",
        "a frame that somebody still looks at is not written over",
        "wire/framing.py",
        "if len(old) < size or len(old) > max(size, KEPT_BYTES_MAX) or not _is_unseen(old):",
        "if len(old) < size or len(old) > max(size, KEPT_BYTES_MAX):",
        "tests/wire/test_framing.py",
    ),
    Mutant(
        "frame-length-believed",
        "a peer's word for a length costs no memory",
        "wire/framing.py",
        "size = max(size, min(needed + needed // 8, _GROWTH * pending))",
        "size = max(size, needed + needed // 8)",
        "tests/wire/test_framing.py",
    ),
    Mutant(
        "frame-large-buffer-kept",
        "a buffer for one large frame is given up after it",
        "wire/framing.py",
        "if len(old) < size or len(old) > max(size, KEPT_BYTES_MAX) or",
        "if len(old) < size or",
        "tests/wire/test_framing.py",
    ),
    Mutant(
        "frame-lacking-stays",
        "the rest of a frame is asked for once",
        "wire/framing.py",
        """        bodies: list[memoryview] = []
        self.lacking = 0
""",
        """        bodies: list[memoryview] = []
""",
        "tests/wire/test_framing.py",
    ),
    Mutant(
        "batch-count-unchecked",
        "a batch holds as many records as it says",
        "wire/kafka/batches.py",
        "if header.count < 1 or header.count != header.last_offset_delta + 1:",
        "if header.count < 1:",
        "tests/wire/kafka/test_batches.py",
    ),
    Mutant(
        "batch-crc-too-short",
        "a flipped bit in a batch is noticed",
        "wire/kafka/batches.py",
        "crc = crc32c(buffer[position + _CRC_COVERS_FROM : position + size])",
        "crc = crc32c(buffer[position + _CRC_COVERS_FROM : end])",
        "tests/wire/kafka/test_batches.py",
    ),
    Mutant(
        "batch-size-below-header",
        "a batch is no smaller than its header",
        "wire/kafka/batches.py",
        "if size < HEADER_SIZE or size > end - position:",
        "if size > end - position:",
        "tests/wire/kafka/test_batches.py",
    ),
    Mutant(
        "partition-negative",
        "a key belongs to the same partition in every client",
        "wire/kafka/partitioner.py",
        "return (murmur2(key) & 0x7FFFFFFF) % partitions",
        "return murmur2(key) % partitions",
        "tests/wire/kafka/test_partitioner.py",
    ),
)
