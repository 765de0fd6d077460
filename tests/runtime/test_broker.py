"""Whole brokers in one loop: several lives, several replicas, and what clients see of it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
import uvloop

from octoloom.core.errors import UsageError
from octoloom.core.log_messages import DropTopic, MakeTopic, TopicPartition
from octoloom.runtime import broker_turns
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.broker_followers import Followers
from octoloom.runtime.broker_identity import Identity
from octoloom.runtime.broker_settings import SYNC_ALWAYS
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.errors import ErrorCode
from tests.runtime.broker_world import FAST, Client, World, batch, with_settings, world
from tests.waiting import PATIENCE_S, until_answered
from tests.waiting import async_until as until

THREE = ("b1", "b2", "b3")


async def restart(all_of_it: World, name: str) -> BrokerServer:
    await all_of_it.brokers.pop(name).stop()
    return await all_of_it.add(name)


def name_in(all_of_it: World, broker: BrokerServer) -> str:
    return next(name for name, each in all_of_it.brokers.items() if each is broker)


async def produce_until_taken(all_of_it: World, topic: str, data: bytes) -> messages.Produced:
    """As a client does: asks for the leader again until the batch is taken."""

    async def taken() -> messages.Produced | None:
        leader = all_of_it.leader(topic)
        if leader is None:
            return None
        async with Client.to(leader.address) as client:
            produced = await client.produce(topic, data)
        return produced if produced.error == 0 else None

    return await until_answered(taken, "somebody to take the batch")


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, settings=with_settings(sync=SYNC_ALWAYS)) as all_of_it:
            await all_of_it.topic("t", partitions=2)
            first = batch(b"a", b"b", producer=9, epoch=0, sequence=0)
            async with Client.to(all_of_it.one.address) as client:
                assert await client.produce("t", first) == (0, 0, 0)
                assert await client.produce("t", batch(b"other"), 1) == (0, 0, 0)
            before = all_of_it.one.id
            await restart(all_of_it, "b1")
            assert (before, all_of_it.one.id) == ("b1#1", "b1#2")
            # Idempotence outlives the process as well.
            assert await produce_until_taken(all_of_it, "t", first) == (0, 0, 0)
            second = batch(b"c", producer=9, epoch=0, sequence=2)
            assert await produce_until_taken(all_of_it, "t", second) == (0, 2, 0)
            async with Client.to(all_of_it.one.address) as client:
                assert await client.read_all("t") == [b"a", b"b", b"c"]
                assert await client.read_all("t", 1) == [b"other"]

    uvloop.run(main())


def test_three_replicas_hold_the_same_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, THREE) as all_of_it:
            await all_of_it.topic("t", partitions=4)
            for number in range(4):
                async with Client.to(all_of_it.led("t", number).address) as client:
                    for count in range(20):
                        value = b"%d-%d" % (number, count) * (1 if count % 5 else 30_000)
                        assert (await client.produce("t", batch(value), number)).error == 0
            for number in range(4):
                await all_of_it.whole("t", number)
                logs = [broker.state.replicas["t", number].log for broker in all_of_it.brokers.values()]
                contents = {log.read(0, 1 << 30, log.end).read() for log in logs}  # type: ignore[union-attr]
                assert len(contents) == 1
                assert len(contents.pop()) > 4 * 30_000

    uvloop.run(main())


def test_another_broker_leads_when_the_leader_is_gone_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, THREE) as all_of_it:
            await all_of_it.topic("t")
            for number in range(5):
                data = batch(b"%d" % number, producer=3, epoch=0, sequence=number)
                assert (await produce_until_taken(all_of_it, "t", data)).base_offset == number
            gone = all_of_it.led("t")
            name = name_in(all_of_it, gone)
            await all_of_it.brokers.pop(name).stop()
            await until(lambda: all_of_it.leader("t") is not None)
            # The new leader knows what the old one knew: this is a duplicate.
            again = batch(b"4", producer=3, epoch=0, sequence=4)
            assert (await produce_until_taken(all_of_it, "t", again)).base_offset == 4
            more = batch(b"5", producer=3, epoch=0, sequence=5)
            assert (await produce_until_taken(all_of_it, "t", more)).base_offset == 5
            await all_of_it.add(name)
            await all_of_it.whole("t")
            async with Client.to(all_of_it.led("t").address) as client:
                assert await client.read_all("t") == [b"%d" % number for number in range(6)]

    uvloop.run(main())


def test_a_follower_that_was_away_catches_up_and_what_only_it_had_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader keeps a batch that nobody else took, loses its place, and gives the batch up when it follows."""
    caplog.set_level(logging.INFO)
    cuts: list[str] = []
    monkeypatch.setattr(Followers, "on_cut", lambda followers: cuts.append(followers.me))

    async def main() -> None:
        async with world(tmp_path, THREE, with_settings(lag_ms=60_000)) as all_of_it:
            await all_of_it.topic("t")
            await produce_until_taken(all_of_it, "t", batch(b"common"))
            await all_of_it.whole("t")
            leader = all_of_it.led("t")
            name = name_in(all_of_it, leader)
            # Nothing of this leader reaches anybody any more.
            leader._followers.send_frame = lambda _: False  # type: ignore[method-assign, assignment]
            async with Client.to(leader.address) as client:
                client.send(Api.PRODUCE, 7, messages.encode_produce("t", 0, batch(b"lonely"), -1, 60_000))
                await until(lambda: leader.core.partitions["t", 0].end == 2)
                await all_of_it.brokers.pop(name).stop()
                assert await client.is_hung_up()
            await until(lambda: all_of_it.leader("t") is not None)
            assert (await produce_until_taken(all_of_it, "t", batch(b"instead"))).base_offset == 1
            back = await all_of_it.add(name)
            await all_of_it.whole("t")
            assert back.state.replicas["t", 0].log.epochs == all_of_it.led("t").state.replicas["t", 0].log.epochs
            async with Client.to(all_of_it.led("t").address) as client:
                assert await client.read_all("t") == [b"common", b"instead"]

    uvloop.run(main())
    assert "t-0 is cut from 2 to 1 to agree with its leader" in caplog.text
    assert len(cuts) == 1


def test_a_leader_that_the_register_does_not_hear_acknowledges_nothing_alone(tmp_path: Path) -> None:
    async def main() -> None:
        settings = with_settings(lag_ms=200)
        async with world(tmp_path, ("b1", "b2"), settings) as all_of_it:
            await all_of_it.topic("t")
            await produce_until_taken(all_of_it, "t", batch(b"a"))
            await all_of_it.whole("t")
            leader = all_of_it.led("t")
            await leader._register.stop()
            leader._followers.send_frame = lambda _: False  # type: ignore[method-assign, assignment]
            async with Client.to(leader.address) as client:
                produced = await client.produce("t", batch(b"b"), timeout_ms=600)
                assert produced.error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER)
                assert leader.core.partitions["t", 0].high == 1

    uvloop.run(main())


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def segment_of(folder: Path, topic: str = "t") -> Path:
    [directory] = [each for each in (folder / "logs").iterdir() if each.name.startswith(f"{topic}@")]
    return sorted(directory.glob("*.log"))[0]


def test_the_leader_itself_is_damaged_and_its_followers_have_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The damage shows when a consumer reads. The broker goes on under a new name, cut; another one leads."""
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t")
            values = [b"%d " % number * 500 for number in range(40)]
            for value in values:
                await produce_until_taken(all_of_it, "t", batch(value))
            await all_of_it.whole("t")
            leader = all_of_it.led("t")
            replica = leader.state.replicas["t", 0]
            # As if it had been opened by this process: everything is to be proved again.
            segment = replica.log._segments.active
            flip(Path(segment.path), 10_000)
            assert segment.pinned is not None
            segment._proven = bytearray(len(segment.pinned.index))
            async with Client.to(leader.address) as client:
                wanted = {("t", 0): messages.FetchFrom(0, -1, 1 << 20)}
                client.send(Api.FETCH, 11, messages.encode_fetch(wanted, 0, 1, 1 << 20))
                assert await client.is_hung_up()
            await until(lambda: leader.id == f"{leader.id.split('#')[0]}#2")
            await until(lambda: all_of_it.leader("t") not in (None, leader))
            assert leader._identity.damaged == []  # the register has heard of it
            await all_of_it.whole("t")
            async with Client.to(all_of_it.led("t").address) as client:
                assert await client.read_all("t") == values
            log = leader.state.replicas["t", 0].log
            assert len(log.read(0, 1 << 30, log.end).read()) == segment_of(tmp_path / leader.id[:2]).stat().st_size  # type: ignore[union-attr]
            assert leader.failed is not None
            assert not leader.failed.done()

    uvloop.run(main())
    assert "goes on as" in caplog.text


def test_damage_at_the_start_is_told_to_the_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[tuple[str, int]]] = []
    forget = Identity.forget_damage

    def watched(identity: Identity) -> None:
        told.append(identity.damaged)
        forget(identity)

    monkeypatch.setattr(Identity, "forget_damage", watched)

    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            await all_of_it.topic("t")
            for number in range(40):
                await produce_until_taken(all_of_it, "t", batch(b"%d " % number * 500))
            await all_of_it.whole("t")
            name = name_in(all_of_it, all_of_it.led("t"))
            await all_of_it.brokers.pop(name).stop()
            segment = segment_of(tmp_path / name)
            segment.write_bytes(segment.read_bytes()[:20_000])
            segment.with_suffix(".index").unlink()
            back = await all_of_it.add(name)
            await all_of_it.whole("t")
            assert [("t", 0)] in told
            assert back._identity.damaged == []
            async with Client.to(all_of_it.led("t").address) as client:
                assert len(await client.read_all("t")) == 40

    uvloop.run(main())


def test_a_broker_that_leaves_has_its_partitions_led_by_others_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, THREE) as all_of_it:
            await all_of_it.topic("t", partitions=6)
            for number in range(6):
                await all_of_it.whole("t", number)
            leaver = all_of_it.brokers.pop("b1")
            assert await leaver.leave(10_000)
            for number in range(6):
                assert all_of_it.leader("t", number) is not None

    uvloop.run(main())


def test_a_broker_without_others_leaves_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            await all_of_it.topic("t")
            assert await all_of_it.brokers.pop("b1").leave(10_000)

    uvloop.run(main())


def test_two_brokers_cannot_share_a_directory_or_a_port(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            same = BrokerServer("b1", all_of_it.register.address, tmp_path / "b1", settings=FAST)
            with pytest.raises(UsageError, match="another broker uses"):
                await same.start()
            port = all_of_it.one._sockets.port
            taken = BrokerServer("b2", all_of_it.register.address, tmp_path / "b2", port=port, settings=FAST)
            with pytest.raises(UsageError, match="cannot listen"):
                await taken.start()
            # The directory is free again: what could not start left nothing behind.
            await all_of_it.add("b2")

    uvloop.run(main())


def test_listeners_hear_who_leads(tmp_path: Path) -> None:
    class Listener:
        def __init__(self) -> None:
            self.led: dict[TopicPartition, int] = {}

        def on_leadership_taken(self, name: TopicPartition, epoch: int) -> None:
            self.led[name] = epoch

        def on_leadership_lost(self, name: TopicPartition) -> None:
            del self.led[name]

    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            listeners = {name: Listener() for name in all_of_it.brokers}
            for name, broker in all_of_it.brokers.items():
                broker.state.listeners.append(listeners[name])
            await all_of_it.topic("t", partitions=2)
            assert listeners["b1"].led.keys() | listeners["b2"].led.keys() == {("t", 0), ("t", 1)}
            await all_of_it.whole("t", 0)
            await all_of_it.whole("t", 1)
            await all_of_it.brokers.pop("b2").stop()
            await until(lambda: len(listeners["b1"].led) == 2)

    uvloop.run(main())


def test_a_broker_whose_name_another_one_took_ends(tmp_path: Path) -> None:
    """The same name with a higher number enlists elsewhere: from a copy of the directory, say."""

    async def main() -> None:
        async with world(tmp_path) as all_of_it:
            older = all_of_it.one
            assert older.failed is not None
            identity = Identity(tmp_path / "copy", "b1")
            identity.begin_life()
            identity.close()
            copy = BrokerServer("b1", all_of_it.register.address, tmp_path / "copy", settings=FAST)
            await copy.start()
            with pytest.raises(UsageError, match="will not have b1#1"):
                await asyncio.wait_for(older.failed, PATIENCE_S)
            await copy.stop()

    uvloop.run(main())


def test_a_large_topic_is_opened_in_many_turns_and_its_maker_answered_behind_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_turns, "FILES_S", 0.0)  # one log in each turn

    async def main() -> None:
        async with world(tmp_path, ("b1", "b2")) as all_of_it:
            brokers = list(all_of_it.brokers.values())
            for topic, count in (("t", 40), ("again", 20)):
                done = await all_of_it.one._register.request(MakeTopic(0, topic, count, 2))
                assert done.error == 0
                opened = [[each.opened for each in broker.core.partitions.values()] for broker in brokers]
                assert all(map(all, opened))
                assert [len(each) for each in opened] == [count, count]
                assert (await all_of_it.one._register.request(DropTopic(0, topic))).error == 0
            # It is made anew before the files of the last one are gone.
            await all_of_it.topic("again")
            await until(lambda: not any(broker._turns._files for broker in brokers))
            folders = [sorted(path.name for path in (tmp_path / name / "logs").iterdir()) for name in ("b1", "b2")]
            assert folders[0] == folders[1]
            assert len(folders[0]) == 1

    uvloop.run(main())
