"""Watch a space from outside: observers need no name, and any link serves them.

python examples/watch.py ws://127.0.0.1:7080 arena
"""

from __future__ import annotations

import asyncio
import json
import sys

from octoloom import Observer


async def main(url: str, space: str) -> None:
    async with Observer.connect(url, space) as it:
        print(it.version, json.dumps(it.state), flush=True)
        async for change in it.changes():
            print(change.version, json.dumps(it.state), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/watch.py ws://127.0.0.1:7080 SPACE")
    asyncio.run(main(sys.argv[1], sys.argv[2]))
