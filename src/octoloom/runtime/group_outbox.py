"""What an app has sent within a tick, until it is handed to the core as bundles.

Messages of a tick share a bundle, so that many cost little more than one, and none waits for another tick. A bundle is
handed over when it is large enough, when a message goes another way than the ones before it, and by `flush`: at the
end of the tick, and before anything that came in later reaches the core. So an answer is never taken for older than
what it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from octoloom.core.errors import UsageError
from octoloom.wire.group import ARRAY_HEAD_MAX, encode_bodies, encode_body, payload_of

BUNDLE_COUNT_MAX = 1024

Send = Callable[[bytes, int, bool], None]
"""Takes a payload, how many messages it has, and whether it passes by the order."""


class GroupOutbox:
    """`bundle_max` is where a bundle is large enough, `payload_max` how long a message may be at most."""

    def __init__(self, send: Send, bundle_max: int, payload_max: int, transport: str) -> None:
        self._send = send
        self._bundle_max = min(bundle_max, payload_max) - ARRAY_HEAD_MAX
        self._payload_max = payload_max
        self._transport = transport
        self._bodies: list[bytes] = []
        self._size = 0
        self._plain = False
        self.bundles = 0
        """How many were handed over."""

    def __len__(self) -> int:
        return len(self._bodies)

    def add(self, body: object, plain: bool = False) -> None:
        """Takes a message, or raises `UsageError`, and then nothing has changed."""
        encoded = encode_body(body)
        self._check(len(encoded) + ARRAY_HEAD_MAX)
        if plain is not self._plain or self._size + len(encoded) > self._bundle_max:
            self.flush()
        self._plain = plain
        self._bodies.append(encoded)
        self._size += len(encoded)
        if len(self._bodies) >= BUNDLE_COUNT_MAX:
            self.flush()

    def add_many(self, bodies: Sequence[object]) -> None:
        """Takes messages as one bundle; as several where they are too long for one."""
        payloads = self._payloads(bodies)
        self.flush()
        for payload, count in payloads:
            self._hand_over(payload, count, False)

    def _payloads(self, bodies: Sequence[object]) -> list[tuple[bytes, int]]:
        if not bodies:
            return []
        payload = encode_bodies(bodies)
        if len(payload) <= self._bundle_max or len(bodies) == 1:
            self._check(len(payload))
            return [(payload, len(bodies))]
        half = len(bodies) // 2
        return [*self._payloads(bodies[:half]), *self._payloads(bodies[half:])]

    def alone(self, body: object) -> bytes:
        """The payload of a message to one member alone."""
        encoded = encode_body(body)
        self._check(len(encoded))
        return encoded

    def _check(self, size: int) -> None:
        if size > self._payload_max:
            cure = "join with transport='tcp', or cut it up" if self._transport == "udp" else "cut it up"
            raise UsageError(
                f"a message over {self._transport} has at most {self._payload_max} bytes, not {size}: {cure}"
            )

    def flush(self) -> None:
        if self._bodies:
            bodies, self._bodies, self._size = self._bodies, [], 0
            self._hand_over(payload_of(bodies), len(bodies), self._plain)

    def _hand_over(self, payload: bytes, count: int, plain: bool) -> None:
        self.bundles += 1
        self._send(payload, count, plain)
