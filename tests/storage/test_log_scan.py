"""A flipped bit or a cut anywhere in 64 KiB of log: what lies before it is found, and nothing that does not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from octoloom.storage.log_index import SparseIndex
from octoloom.storage.log_scan import PIECE_BYTES, Scan, first_wrong, whole_batches
from octoloom.wire.kafka.batches import HEADER_SIZE, read_header, stamp
from tests.storage.log_batches import make_batch

SEGMENTS = 32
SEGMENT_BYTES = 2048
EPOCH_BYTES = range(12, 16)


class Sample:
    """One segment of a log as bytes, with the place and first offset of every batch."""

    def __init__(self, base: int, epoch: int, dice: random.Random) -> None:
        self.base, self.end = base, base
        self.data = b""
        self.places: list[tuple[int, int]] = []
        self.epochs: list[tuple[int, int]] = []
        while len(self.data) < SEGMENT_BYTES:
            if not self.epochs or dice.random() < 0.2:
                epoch += 1
                self.epochs.append((epoch, self.end))
            batch = make_batch(self.end, dice.choice([90, 300, 500, 900]), epoch, count=dice.randint(1, 4))
            self.places.append((len(self.data), self.end))
            self.data += batch
            self.end = read_header(batch).next_offset

    def holder(self, position: int) -> tuple[int, int]:
        """The place and first offset of the batch that holds a byte."""
        return next(place for place in reversed(self.places) if place[0] <= position)

    def scanned(self, data: bytes | bytearray) -> Scan:
        scan = Scan(SparseIndex(512), self.base, epoch=self.epochs[0][0])
        is_whole = scan.run(lambda size, position: bytes(data[position : position + size]), len(data))
        assert is_whole == (scan.size == len(data))
        return scan


def samples() -> Iterator[Sample]:
    dice = random.Random(7)
    base, epoch = 0, 0
    for _ in range(SEGMENTS):
        sample = Sample(base, epoch, dice)
        yield sample
        base, epoch = sample.end, sample.epochs[-1][0]


def places(sample: Sample, is_every: bool) -> Iterator[int]:
    """Every byte of the segment, or every one of the headers and some of those that a CRC covers all alike."""
    for position in range(len(sample.data)):
        if is_every or position % 8 == 0 or position - sample.holder(position)[0] <= HEADER_SIZE:
            yield position


def flips(sample: Sample, is_every: bool = True) -> Iterator[tuple[int, bytearray]]:
    data = bytearray(sample.data)
    for position in places(sample, is_every):
        data[position] ^= 1 << position % 8
        yield position, data
        data[position] ^= 1 << position % 8


def test_a_whole_log_is_found_whole() -> None:
    for sample in samples():
        scan = sample.scanned(sample.data)
        assert (scan.size, scan.end, scan.epochs) == (len(sample.data), sample.end, sample.epochs)
        assert first_wrong(memoryview(sample.data), sample.base, sample.end, sample.epochs) is None


def test_who_knows_the_epochs_finds_every_flipped_bit_in_its_batch() -> None:
    for sample in samples():
        for position, data in flips(sample):
            _, offset = sample.holder(position)
            assert first_wrong(memoryview(data), sample.base, sample.end, sample.epochs) == offset


@pytest.mark.parametrize("is_every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_scan_ends_before_every_flipped_bit_that_has_a_witness(is_every: bool) -> None:
    for sample in samples():
        for position, data in flips(sample, is_every):
            place, offset = sample.holder(position)
            scan = sample.scanned(data)
            if position - place not in EPOCH_BYTES:
                assert (scan.size, scan.end) == (place, offset)
            elif scan.size > place:
                # No CRC covers the epoch. It may pass for another if it fits between its neighbours.
                assert sample.data[:place] == data[:place]
                assert scan.epochs == sorted(set(scan.epochs))
            else:
                last_before = max((at for at, _ in sample.places if at < place), default=0)
                assert scan.size in (place, last_before)


@pytest.mark.parametrize("is_every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_log_that_is_cut_anywhere_is_found_up_to_the_last_whole_batch(is_every: bool) -> None:
    for sample in samples():
        for size in places(sample, is_every):
            place, offset = sample.holder(size)
            scan = sample.scanned(sample.data[:size])
            assert (scan.size, scan.end) == (place, offset)
            assert first_wrong(memoryview(sample.data[:size]), sample.base, sample.end, sample.epochs) == offset


@pytest.mark.parametrize("junk", [b"\0", b"\xff", b"\0" * 61, b"\0" * 5000, b"\xff" * 5000, bytes(range(256)) * 9])
def test_junk_behind_the_last_batch_is_not_taken(junk: bytes) -> None:
    sample = next(samples())
    scan = sample.scanned(sample.data + junk)
    assert (scan.size, scan.end) == (len(sample.data), sample.end)


def test_an_epoch_that_one_batch_claims_and_the_next_contradicts_costs_both() -> None:
    for epochs, kept in [
        ([3, 3, 3], 3),
        ([3, 4, 4], 3),
        ([3, 3, 9, 3], 2),
        ([9, 3, 3], 0),
        ([5, 5, 5, 3, 5], 3),
        ([3, 9, 9, 3], 3),
    ]:
        data = b"".join(make_batch(offset, epoch=epoch) for offset, epoch in enumerate(epochs))
        scan = Scan(SparseIndex(512), 0)
        scan.run(lambda size, position, data=data: data[position : position + size], len(data))  # type: ignore[misc]
        assert scan.end == kept, epochs


def test_an_old_batch_behind_a_new_one_is_not_taken() -> None:
    """What a file held before may be whole, but it is not what follows."""
    batches = [bytearray(make_batch(offset, 200)) for offset in range(5)]
    stamp(batches[3], 0, 7, 0)
    scan = Scan(SparseIndex(512), 0)
    data = b"".join(batches)
    assert not scan.run(lambda size, position: data[position : position + size], len(data))
    assert scan.end == 3


def test_a_batch_that_is_larger_than_a_piece_is_read_whole() -> None:
    large = [make_batch(offset, PIECE_BYTES * 3 // 2) for offset in range(3)]
    data = b"".join(large)
    for cut in (0, 1, PIECE_BYTES):
        scan = Scan(SparseIndex(512), 0)
        limit = len(data) - cut
        scan.run(lambda size, position, limit=limit: data[position : min(position + size, limit)], limit)  # type: ignore[misc]
        assert scan.end == (2 if cut else 3)


def test_a_disk_that_does_not_give_back_the_end_of_a_batch_ends_the_scan() -> None:
    data = make_batch(0, PIECE_BYTES * 3)
    scan = Scan(SparseIndex(512), 0)
    assert not scan.run(lambda size, position: data[position : min(position + size, PIECE_BYTES * 2)], len(data))
    assert (scan.end, scan.size) == (0, 0)


def test_whole_batches_stop_at_the_first_that_is_not() -> None:
    data = b"".join(make_batch(offset) for offset in range(4))
    quarter = len(data) // 4
    for broken in range(4):
        damaged = bytearray(data)
        damaged[quarter * broken + 70] ^= 1
        assert [position for position, _ in whole_batches(memoryview(damaged))] == [quarter * n for n in range(broken)]
