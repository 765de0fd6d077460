"""Makes the parts of a planned cluster: each a process of its own, or, for a cluster of one, a server in this process.

A part that is started again listens where it did before: devices, links and Kafka clients may know no other address.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core.journal import Durability
from octoloom.core.register import RegisterConfig
from octoloom.runtime.apps import load_app
from octoloom.runtime.broker import BrokerServer
from octoloom.runtime.broker_settings import BrokerSettings
from octoloom.runtime.frames import split_address
from octoloom.runtime.link import AT_REGISTER, LinkServer
from octoloom.runtime.plan import Plan
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.services import LEAVE_S, BrokerHere, Kept, LinkHere, News, RegisterHere, Service
from octoloom.runtime.trial import Trials


class Parts:
    def __init__(self, plan: Plan, in_processes: bool, news: News, on_broken: Callable[[BaseException], None]) -> None:
        self._plan = plan
        self._in_processes = in_processes
        self._news, self._on_broken = news, on_broken
        self._logs = plan.logs

    def register(self) -> Service:
        plan = self._plan
        if not self._in_processes:
            config = RegisterConfig(plan.chain_names, plan.replicas)
            return RegisterHere(RegisterServer(config, plan.data / "register.db", plan.host, plan.register_port))

        def arguments(facts: dict[str, str]) -> list[str]:
            port = split_address(facts["address"])[1] if facts else plan.register_port
            return [
                "register", "--host", plan.host, "--port", str(port), "--data", str(plan.data),
                "--replicas", str(plan.replicas), "--chains", str(plan.chains),
            ]  # fmt: skip

        return Kept("register", "register", arguments, self._logs / "register.log", self._news)

    def broker(self, register: str, name: str, at: int) -> Service:
        plan = self._plan
        data = plan.data / "brokers" / name
        port = plan.broker_port + at if plan.broker_port else 0
        if not self._in_processes:
            settings = BrokerSettings(sync=plan.sync)
            server = BrokerServer(name, register, data, plan.host, port, settings=settings)
            return BrokerHere(name, server, self._on_broken)

        def arguments(facts: dict[str, str]) -> list[str]:
            known = split_address(facts["address"])[1] if facts else port
            return [
                "broker", "--name", name, "--register", register, "--data", str(data), "--host", plan.host,
                "--port", str(known), "--sync", plan.sync,
            ]  # fmt: skip

        return Kept(name, "broker", arguments, self._logs / f"{name}.log", self._news)

    def link(self, register: str, name: str, at: int, in_process: bool = True) -> Service:
        """The first link of a cluster of one is in this process, unless it shall load the app's code anew."""
        plan = self._plan
        port = plan.device_port + at if plan.device_port else 0
        keeps = plan.journal is not Durability.NONE
        if not self._in_processes and in_process and at == 0:
            brokers = AT_REGISTER if keeps else ""
            server = LinkServer(
                name, register, load_app(plan.app), plan.host, port, journal=brokers, durability=plan.journal,
                trials=Trials(plan.app),
            )  # fmt: skip
            return LinkHere(name, server, self._on_broken)
        journal = ["--journal", AT_REGISTER, "--durability", plan.journal.value] if keeps else []

        def arguments(facts: dict[str, str]) -> list[str]:
            known = int(facts["url"].rpartition(":")[2]) if facts else port
            return [
                "link", "--name", name, "--register", register, "--app", plan.app, "--host", plan.host,
                "--device-port", str(known), "--leave-seconds", str(LEAVE_S), *journal,
            ]  # fmt: skip

        return Kept(name, "link", arguments, self._logs / f"{name}.log", self._news)
