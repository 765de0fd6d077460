"""Who may follow a broker, what a follower is sent, and what happens to one that lags behind retention."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import uvloop

from octoloom.core.log_messages import Durable, Follow, FollowEntry
from octoloom.core.replication import FRAME_BYTES_MAX, FRAMES_MAX
from octoloom.wire.replication import (
    Intro,
    TakenPart,
    decode_frame,
    decode_welcome,
    encode_from_follower,
    encode_intro,
)
from tests.runtime.broker_world import Client, World, batch, with_settings, world
from tests.waiting import async_until as until

ME = "b2#1"


class Follower(Client):
    """A follower by hand, in the place of a broker that is enlisted."""

    async def introduce(self, leader: str, broker: str = ME, token: str = "") -> None:
        self.writer.write(encode_intro(Intro(broker, leader, token)))

    async def follow(self, *entries: FollowEntry) -> None:
        self.writer.write(encode_from_follower(Follow(ME, list(entries))))

    async def frame(self) -> tuple[int, list[TakenPart]]:
        return decode_frame(await self.receive())


def leader_of(all_of_it: World) -> str:
    return all_of_it.led("t").id


@pytest.mark.parametrize(
    ("leader", "broker", "token"),
    [("b9#1", ME, "s"), ("b1#1", "stranger#1", "s"), ("b1#1", ME, "wrong"), ("b1#1", ME, "")],
    ids=["other leader", "stranger", "wrong token", "no token"],
)
def test_only_brokers_of_the_cluster_that_mean_this_one_are_let_in(
    tmp_path: Path, leader: str, broker: str, token: str
) -> None:
    async def main() -> None:
        async with (
            world(tmp_path, ("b1", "b2"), with_settings(token="s")) as all_of_it,
            Follower.to(all_of_it.brokers["b1"].address) as follower,
        ):
            assert isinstance(follower, Follower)
            await follower.introduce(leader, broker, token)
            assert await follower.is_hung_up()

    uvloop.run(main())


def test_brokers_with_one_token_follow_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2"), with_settings(token="s")) as all_of_it:
            await all_of_it.topic("t")
            async with Client.to(all_of_it.led("t").address) as client:
                assert (await client.produce("t", batch(b"a"))).error == 0
            await all_of_it.whole("t")

    uvloop.run(main())


def test_a_stream_is_cut_into_frames_and_waits_for_leave(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t", replicas=1, max_message_bytes="2000000")
            leader = all_of_it.led("t")
            large = batch(b"x" * 400_000)
            async with Client.to(leader.address) as client:
                for _ in range(40):
                    assert (await client.produce("t", large)).error == 0
                assert (await client.produce("t", batch(b"y" * 1_500_000))).error == 0
            async with Follower.to(leader.address) as follower:
                assert isinstance(follower, Follower)
                me = next(broker.id for broker in all_of_it.brokers.values() if broker is not leader)
                await follower.introduce(leader.id, me)
                assert decode_welcome(await follower.receive()).broker == leader.id
                follower.writer.write(encode_from_follower(Follow(me, [FollowEntry("t", 0, 1, 0, -1, 0)])))
                offset, frames = 0, 0
                while offset < 41:
                    number, [taken] = await follower.frame()
                    frames += 1
                    assert number == frames
                    assert taken.part.offset == offset
                    assert len(taken.batches) <= FRAME_BYTES_MAX or len(taken.headers) == 1
                    offset = taken.headers[-1].next_offset
                    if frames == FRAMES_MAX:
                        # No more comes until these are acknowledged.
                        await until(lambda: leader._followers._connections[me]._out.size == 0)
                        assert not leader.core.streaming._outgoing[me].has_leave
                    if frames >= FRAMES_MAX:
                        ends = [("t", 0, 1, offset)]
                        follower.writer.write(encode_from_follower(Durable(number, ends)))
                assert frames > 2 * FRAMES_MAX

    uvloop.run(main())


def test_many_partitions_share_a_frame_and_what_does_not_fit_comes_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t", partitions=10, replicas=1)
            leader = all_of_it.led("t")
            me = next(broker.id for broker in all_of_it.brokers.values() if broker is not leader)
            led = [number for number in range(10) if all_of_it.led("t", number) is leader]
            large = batch(b"x" * 400_000)
            async with Client.to(leader.address) as client:
                for number in led:
                    assert (await client.produce("t", large, number)).error == 0
            async with Follower.to(leader.address) as follower:
                assert isinstance(follower, Follower)
                await follower.introduce(leader.id, me)
                await follower.receive()
                entries = [FollowEntry("t", number, 1, 0, -1, 0) for number in led]
                follower.writer.write(encode_from_follower(Follow(me, entries)))
                taken: list[int] = []
                while len(taken) < len(led):
                    _, parts = await follower.frame()
                    assert sum(part.part.size for part in parts) < FRAME_BYTES_MAX + len(large)
                    taken += [part.part.partition for part in parts if part.batches]
                assert sorted(taken) == led

    uvloop.run(main())


def test_nobody_is_sent_what_comes_to_a_place_that_was_cut(tmp_path: Path) -> None:
    """A follower is slow to read a slice of a file. The file is about to change there: its connection ends."""

    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t", replicas=1)
            leader = all_of_it.led("t")
            me = next(broker.id for broker in all_of_it.brokers.values() if broker is not leader)
            async with Client.to(leader.address) as client:
                for _ in range(40):
                    await client.produce("t", batch(b"x" * 900_000))
            async with Follower.to(leader.address) as follower:
                assert isinstance(follower, Follower)
                await follower.introduce(leader.id, me)
                follower.writer.write(encode_from_follower(Follow(me, [FollowEntry("t", 0, 1, 0, -1, 0)])))
                followers = leader._followers
                await until(lambda: me in followers._connections and followers._connections[me].sends_files)
                followers.on_cut()
                assert followers._connections == {}

    uvloop.run(main())


def test_a_follower_that_retention_has_passed_is_told_where_to_begin(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t", replicas=1)
            leader = all_of_it.led("t")
            me = next(broker.id for broker in all_of_it.brokers.values() if broker is not leader)
            async with Client.to(leader.address) as client:
                for number in range(10):
                    await client.produce("t", batch(b"%d" % number))
            async with Follower.to(leader.address) as follower:
                assert isinstance(follower, Follower)
                await follower.introduce(leader.id, me)
                await follower.receive()
                follower.writer.write(encode_from_follower(Follow(me, [FollowEntry("t", 0, 1, 10, 1, 10)])))
                await follower.frame()
                # It stands at the end. What is behind it is deleted; its stream is told that it begins later now.
                leader.core.streaming._outgoing[me].sent["t", 0] = 3
                assert leader.services.delete_records(("t", 0), 7) == (0, 7)
                _, [taken] = await follower.frame()
                assert (taken.part.verdict, taken.part.start) == ("refused", 7)
                follower.writer.write(encode_from_follower(Follow(me, [FollowEntry("t", 0, 1, 3, 1, 3)])))
                _, [taken] = await follower.frame()
                assert (taken.part.verdict, taken.part.offset) == ("reset", 7)

    uvloop.run(main())


def test_a_follower_that_speaks_nonsense_is_hung_up_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            async with Follower.to(all_of_it.brokers["b1"].address) as follower:
                assert isinstance(follower, Follower)
                await follower.introduce("b1#1")
                await follower.receive()
                follower.writer.write(struct.pack(">i", 5) + b"hello")
                assert await follower.is_hung_up()
            async with Follower.to(all_of_it.brokers["b1"].address) as follower:
                assert isinstance(follower, Follower)
                await follower.introduce("b1#1")
                await follower.receive()
                follower.writer.write(encode_from_follower(Follow("somebody#1", [])))
                assert await follower.is_hung_up()

    uvloop.run(main())


def test_a_newer_connection_takes_the_place_of_the_older(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            address = all_of_it.brokers["b1"].address
            async with Follower.to(address) as older, Follower.to(address) as newer:
                for follower in (older, newer):
                    assert isinstance(follower, Follower)
                    await follower.introduce("b1#1")
                    await follower.receive()
                assert await older.is_hung_up()
                assert list(all_of_it.brokers["b1"]._followers._connections) == [ME]

    uvloop.run(main())
