"""What the register tells a broker goes to the directory and the core, and is told to whoever reads the log file: a
leadership transition can be watched there, from announcement to commit.
"""

from __future__ import annotations

import logging

from octoloom.core.log_messages import (
    Aborted,
    Announced,
    InSyncRefused,
    LogDirectory,
    LogNews,
    PartitionState,
    RegisterToBroker,
)
from octoloom.runtime.broker_state import BrokerState

TOLD_MAX = 20
"""Partitions named in the log for one message; a thousand lines help nobody."""

_log = logging.getLogger("octoloom.broker")


def hear(state: BrokerState, message: RegisterToBroker) -> None:
    core, directory, now = state.core, state.directory, state.clock.now()
    match message:
        case LogDirectory():
            directory.on_directory(message)
            core.on_directory(now, message)
            _log.info("revision %d: %d brokers, %d topics", message.revision, len(message.brokers), len(message.topics))
        case LogNews():
            _tell_news(state, message)
            directory.on_news(message)
            core.on_news(now, message)
        case Announced(transition, partitions, reason):
            _log.info("transition %d of %d partitions is announced: %s", transition, len(partitions), reason)
            core.on_announced(now, message)
        case Aborted(transition, reason):
            _log.info("transition %d is aborted: %s", transition, reason)
            core.on_aborted(now, message)
        case InSyncRefused(topic, number, version):
            _log.info("%s-%d keeps its in-sync set of version %d", topic, number, version)
            core.on_refused(now, message)
    if isinstance(message, LogDirectory) or (isinstance(message, LogNews) and message.topics):
        state.logs.retire(core.partitions)
        _configure(state)
    state.soon()


def _configure(state: BrokerState) -> None:
    for name, replica in state.replicas.items():
        info = state.core.topics.get(name[0])
        if info is not None and info is not replica.info:
            state.logs.configure(replica, info)


def _tell_news(state: BrokerState, news: LogNews) -> None:
    if news.transition:
        _log.info("transition %d is committed", news.transition)
    for topic, number, decided in news.partitions[:TOLD_MAX]:
        before = state.directory.state((topic, number))
        if before is None or before.epoch != decided.epoch:
            text = f"leads in epoch {decided.epoch}" if decided.leader else f"nobody leads in epoch {decided.epoch}"
            _log.info("%s-%d: %s %s, in sync: %s", topic, number, decided.leader, text, _in_sync(decided))
        elif before.in_sync != decided.in_sync:
            _log.info("%s-%d: in sync: %s", topic, number, _in_sync(decided))
    if len(news.partitions) > TOLD_MAX:
        _log.info("and %d partitions more", len(news.partitions) - TOLD_MAX)


def _in_sync(state: PartitionState) -> str:
    return " ".join(state.in_sync) or "nobody"
