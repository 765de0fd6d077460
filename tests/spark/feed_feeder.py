"""A feed in a process of its own, to be killed: `python -m tests.spark.feed_feeder URL LEDGER BATCHES`."""

from __future__ import annotations

import sys
from pathlib import Path

from octoloom.spark.feed import Feeder

SPACES = ("hall", "loft", "yard")


def rows_of(batch: int) -> list[tuple[str | None, str | None, str | None]]:
    return [(SPACES[at % 3], "add", f'{{"batch":{batch},"at":{at}}}') for at in range(120 + batch)]


def main() -> None:
    url, ledger, batches = sys.argv[1:]
    feeder = Feeder([url], "scores", Path(ledger))
    for batch in range(int(batches)):
        feeder.run(batch, None if feeder.knows(batch) else rows_of(batch))
        print("done", batch, flush=True)
    feeder.close()


if __name__ == "__main__":
    main()
