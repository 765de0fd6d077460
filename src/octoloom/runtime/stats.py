"""What a link tells of itself, and how to ask it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import TYPE_CHECKING, Any

import msgspec

from octoloom.core.chain import Chain
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.core.space import Space
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.wire.stats import ANSWER_BYTES_MAX, SPACES_MAX, StatsRequest, decode_answer, encode_request

if TYPE_CHECKING:
    from octoloom.runtime.link import LinkServer


class Digests:
    """The hash of each state, as text with sorted keys; reckoned once per version."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, str]] = {}

    def of(self, chain: str, space: Space) -> str:
        version, digest = self._known.get((chain, space.name), (-1, ""))
        if version != space.version:
            text = msgspec.json.encode(space.state, order="deterministic")
            digest = hashlib.sha256(text).hexdigest()
            self._known[chain, space.name] = space.version, digest
        return digest


def role_of(chain: Chain) -> str:
    """What a link is in a chain, for people: a lone link is head and tail."""
    if chain.place.is_learner:
        return "learner"
    if not chain.place.is_member:
        return "outside"
    roles = [word for word, holds in (("head", chain.place.is_head), ("tail", chain.place.is_tail)) if holds]
    return "+".join(roles) or "middle"


def of_chain(chain: Chain) -> dict[str, Any]:
    return {
        "role": role_of(chain),
        "epoch": chain.view.epoch,
        "generation": chain.view.generation,
        "links": chain.view.links,
        "whole": chain.whole,
        "suspended": chain.suspended,
        "spaces": len(chain.spaces),
        "connections": len(chain.service),
        "versions": sum(space.version for space in chain.spaces.values()),
        "live": sum(len(space.events) for space in chain.spaces.values()),
        "refused": dict(chain.service.refused),
    }


def of_space(chain: Chain, space: Space, digests: Digests | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "chain": chain.chain,
        "space": space.name,
        "version": space.version,
        "committed": space.committed,
        "live": len(space.events),
        "next_chain_sequencer": space.next_chain_sequencer,
        "devices": len(space.devices),
        "present": len(space.present),
    }
    if digests is not None:
        told["digest"] = digests.of(chain.chain, space)
    return told


def of_link(link: LinkServer, digests: Digests | None) -> dict[str, Any]:
    spaces = [(chain, space) for chain in link.chains.values() for space in chain.spaces.values()]
    shown = spaces[:SPACES_MAX]
    return {
        "link": link.id,
        "app": link.app.name,
        "pid": os.getpid(),
        "url": link.url,
        "peer": link.peer_address,
        "time_ms": link.clock.now(),
        "up_ms": link.clock.now() - link.clock.started_ms,
        "connections": len(link.doors),
        "counters": dict(link.counters()),
        "chains": {name: of_chain(chain) for name, chain in link.chains.items()},
        "spaces": [of_space(chain, space, digests) for chain, space in shown],
        "spaces_left_out": len(spaces) - len(shown),
    }


def answer(link: LinkServer, request: StatsRequest, digests: Digests) -> dict[str, Any]:
    told = of_link(link, digests if request.digests else None)
    for chain in link.chains.values():
        space = chain.spaces.get(request.space)
        if space is not None:
            told["snapshot"] = of_space(chain, space, digests)
            told["snapshot"]["state"] = msgspec.Raw(msgspec.json.encode(space.state, order="deterministic"))
    return told


async def ask(address: str, request: StatsRequest | None = None, timeout_s: float = 5.0) -> dict[str, Any]:
    """Asks the link whose peer port is at `address` (host:port)."""
    host, port = split_address(address)
    answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def on_frames(_connection: FramedConnection, frames: list[memoryview]) -> None:
        if not answered.done():
            answered.set_result(decode_answer(frames[0]))

    def on_closed(_connection: FramedConnection, error: Exception | None) -> None:
        if not answered.done():
            answered.set_exception(error or ConnectionResetError("it hung up"))

    def protocol() -> FramedConnection:
        return FramedConnection(on_frames, on_closed, frame_max=ANSWER_BYTES_MAX)

    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await asyncio.get_running_loop().create_connection(protocol, host, port)
            connection.send(encode_request(request or StatsRequest()))
            try:
                return await answered
            finally:
                connection.abort()
    except (OSError, TimeoutError, OctoloomError) as error:
        raise UsageError(f"no link answers at {address}: is it running?") from error
