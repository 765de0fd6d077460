"""The register as a real process that is killed: whatever it has answered is still true when it is back."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

from octoloom.core.log_messages import Allotted, BrokerAddress, EnlistBroker, MakeTopic
from octoloom.core.register_messages import Declined, Enlist, LinkAddress
from octoloom.runtime.register_client import ask_log
from octoloom.runtime.register_line import RegisterLine
from octoloom.wire.register import Answer, Request
from tests.runtime.real_log import RealProcess
from tests.runtime.test_register_logs import Broker, run
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

ROUNDS = 4


def test_a_killed_register_forgets_nothing_that_it_has_answered(tmp_path: Path) -> None:
    def started(port: str) -> RealProcess:
        where = ["--port", port, "--data", str(tmp_path / "data")]
        process = RealProcess("register", tmp_path, "register", *where, "--topic-partitions", "5")
        process.await_ready()
        return process

    async def story() -> None:
        register = await asyncio.to_thread(started, "0")
        address = register.address
        brokers = [Broker(name, address) for name in ("a#1", "b#1", "c#1")]
        made: list[str] = []
        allotted: list[Allotted] = []
        revision = 0

        async def make(broker: Broker, name: str) -> None:
            while name not in made:
                done = await broker.client.request(MakeTopic(0, name))
                # Whether it was done when the register died is not known, so it may be there already.
                if done.error in (0, 36):
                    made.append(name)
                await asyncio.sleep(0.005)

        async def take_ids(broker: Broker) -> None:
            while True:
                allotted.append(await broker.client.allot(10))
                await asyncio.sleep(0.001)

        takers = [asyncio.ensure_future(take_ids(broker)) for broker in brokers]
        for number in range(ROUNDS):
            await until(lambda: all(len(broker.directory.brokers) == 3 for broker in brokers))
            makers = [
                asyncio.ensure_future(make(broker, f"{broker.broker[0]}{number}-{each}"))
                for broker in brokers
                for each in range(10)
            ]
            await asyncio.sleep(random.uniform(0.0, 0.05))
            told = max(broker.directory.revision for broker in brokers)
            answered = list(made)
            await asyncio.to_thread(register.end, signal.SIGKILL)
            register = await asyncio.to_thread(started, address.rpartition(":")[2])
            directory = await ask_log(address, PATIENCE_S)
            assert directory.revision >= told >= revision
            assert set(answered) <= set(directory.topics)
            await asyncio.gather(*makers)
            revision = told
        for taker in takers:
            taker.cancel()
        given = [block.first + step for block in allotted for step in range(block.count)]
        assert len(set(given)) == len(given)
        directory = await ask_log(address, PATIENCE_S)
        assert len(directory.topics) == ROUNDS * 30 == len(set(made))
        assert len(directory.partitions) == ROUNDS * 30 * 5
        # On a slow machine a lease may lapse, and the broker enlists again; nothing else may be declined.
        assert {declined.code for broker in brokers for declined in broker.declined} <= {"lapsed"}
        for broker in brokers:
            await broker.client.stop()
        await asyncio.to_thread(register.end, signal.SIGTERM)
        log = register.log.read_text()
        assert "is here: 127.0.0.1:1" in log
        assert "topic a0-0 (number" in log

    run(story)


def test_who_is_silent_for_the_lease_that_was_chosen_is_given_up(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    register = RealProcess("register", tmp_path, "register", "--port", "0", "--data", data, "--lease-ms", "500")

    async def is_given_up(enlist: Request) -> None:
        answers: list[Answer] = []
        silent = RegisterLine(register.address, lambda: [enlist], answers.append)
        silent.start()

        def declined() -> list[str]:
            return [answer.detail for answer in answers if isinstance(answer, Declined) and answer.code == "lapsed"]

        await until(lambda: "nothing was heard for 500 ms: enlist again" in declined())
        await silent.stop()

    async def story() -> None:
        await is_given_up(EnlistBroker(BrokerAddress("b#1", "127.0.0.1", 1, "disk"), -1))
        await is_given_up(Enlist(LinkAddress("l#1", "127.0.0.1:1", "ws://127.0.0.1:2")))

    try:
        run(story)
    finally:
        register.end(signal.SIGTERM)
