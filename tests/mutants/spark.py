"""Bugs in the data pipeline, as far as tests without Java notice them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SPARK = (
    Mutant(
        "sink-epoch-of-era",
        "a batch that runs again is known to the brokers",
        "spark/sink_numbers.py",
        "era, epoch = divmod(batch_id, BATCHES_PER_ERA)",
        "era, epoch = divmod(batch_id, BATCHES_PER_ERA + 1)",
        "tests/spark/test_sink_numbers.py",
    ),
    Mutant(
        "sink-same-writer",
        "each Spark partition writes under an id of its own",
        "spark/sink_numbers.py",
        'f"{era} {spark_partition} {writer}"',
        'f"{era} {writer}"',
        "tests/spark/test_sink_numbers.py",
    ),
    Mutant(
        "sink-cut-too-large",
        "a piece takes as many rows as fit",
        "spark/sink_numbers.py",
        'taken + bytes_max, side="right"))',
        'taken + bytes_max, side="right")) + 1',
        "tests/spark/test_sink_numbers.py",
    ),
    Mutant(
        "sink-cut-endless",
        "a row larger than a piece goes alone",
        "spark/sink_numbers.py",
        "begin = min(max(fits, begin + 1), begin + rows_max)",
        "begin = min(max(fits, begin + 2), begin + rows_max)",
        "tests/spark/test_sink_numbers.py",
    ),
    Mutant(
        "sink-key-sign",
        "keys go where other clients put them",
        "spark/sink_numbers.py",
        "(murmur2(keys) & np.uint32(0x7FFFFFFF))",
        "(murmur2(keys) & np.uint32(0xFFFFFFFF))",
        "tests/spark/test_sink_numbers.py",
    ),
    Mutant(
        "limit-starves",
        "each partition gets on, however small the limit",
        "spark/ranges.py",
        "nearer = {place: starts.get(place, 0) + 1 + rest",
        "nearer = {place: starts.get(place, 0) + rest",
        "tests/spark/test_ranges.py",
    ),
    Mutant(
        "split-drops-rest",
        "the parts of a range hold all of it",
        "spark/ranges.py",
        "edges = [whole.start + whole.size * number // parts for number in range(parts + 1)]",
        "edges = [whole.start + whole.size // parts * number for number in range(parts + 1)]",
        "tests/spark/test_ranges.py",
    ),
    Mutant(
        "stream-target-moves",
        "a stream that reads what is there ends",
        "spark/planning.py",
        "end = high if self.target is None else min(high, max(self.target.get(place, start), start))",
        "end = high",
        "tests/spark/test_planning.py",
    ),
    Mutant(
        "stream-loss-unseen",
        "records that were deleted before they were read are an error",
        "spark/planning.py",
        """            if start < first or start > high:
""",
        """            if start > high:
""",
        "tests/spark/test_planning.py",
    ),
    Mutant(
        "batch-beyond-end",
        "a batch that asks for more than there is says so",
        "spark/planning.py",
        "if wanted.start < first or max(wanted.start, wanted.end) > high:",
        "if wanted.start < first or wanted.start > high:",
        "tests/spark/test_planning.py",
    ),
    Mutant(
        "remade-topic-skipped",
        "a topic that was made anew is read from its beginning",
        "spark/planning.py",
        "place: start if start <= end else 0 for place",
        "place: min(start, end) for place",
        "tests/spark/test_planning.py",
    ),
    Mutant(
        "loss-is-silent",
        "failOnDataLoss is obeyed",
        "spark/planning.py",
        """    if options.fails_on_data_loss:
        raise error
""",
        "",
        "tests/spark/test_planning.py",
    ),
    Mutant(
        "offsets-strange-ignored",
        "offsets for partitions that are not read are a mistake",
        "spark/offsets.py",
        """    if strange:
""",
        """    if strange and not edge.each:
""",
        "tests/spark/test_offsets.py",
    ),
    Mutant(
        "offsets-true-is-one",
        "an offset is a whole number",
        "spark/offsets.py",
        "if not isinstance(number, int) or isinstance(number, bool) or not least",
        "if not isinstance(number, int) or not least",
        "tests/spark/test_offsets.py",
    ),
)
