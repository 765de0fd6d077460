"""Where Spark runs: what the name of a master says, and whether it can be used.

`local[2]` is two threads of this process's own Java; `spark://host:7077` is a standalone cluster, which may have
several masters, one of which leads (`spark://a:7077,b:7077`). What is wrong with a name is said here, at once: Spark
itself would say it late, in a page of Scala, or after minutes of knocking at a door where nobody is.
"""

from __future__ import annotations

import os
import re
import socket

from octoloom.core.errors import UsageError

LOCAL = "local[*]"
LOCAL_FORM = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
OTHER_FORMS = ("k8s://", "yarn")
"""Clusters that Spark knows how to ask, and we do not."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANSWER_S = 5.0
STANDALONE = "spark://"
MASTER_CLASS = "org.apache.spark.deploy.master.Master"


def is_local(master: str) -> bool:
    return LOCAL_FORM.fullmatch(master) is not None


def is_here(master: str) -> bool:
    """Whether loopback is all that is needed."""
    hosts = [host for host, _ in addresses(master)]
    return is_local(master) or (bool(hosts) and all(host in LOOPBACK for host in hosts))


def addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of a standalone cluster's masters; a port that is none is 0."""
    if not master.startswith(STANDALONE):
        return []
    parts = (part.rpartition(":") for part in master.removeprefix(STANDALONE).split(","))
    return [(host.strip("[]"), int(port) if port.isdigit() else 0) for host, _, port in parts]


def local_cores(master: str) -> int:
    found = LOCAL_FORM.fullmatch(master)
    count = found.group(1) if found else None
    if count is None:
        return 1
    return (os.cpu_count() or 1) if count == "*" else int(count)


def check(master: str) -> None:
    if is_local(master):
        if local_cores(master) < 1:
            raise UsageError(f"{master!r} has no thread to work with: write local[2]")
        return
    if master.startswith(OTHER_FORMS):
        return
    found = addresses(master)
    if not found:
        raise UsageError(f"{master!r} is no Spark master: write local[2], or spark://host:7077 for a cluster")
    if not all(host and 0 < port < 65536 for host, port in found):
        raise UsageError(f"{master!r} names no host and port: write spark://host:7077")
    if not any(_answers(host, port) for host, port in found):
        raise UsageError(f"no Spark master answers at {master}: start one with `spark-class {MASTER_CLASS}`")


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=ANSWER_S):
            return True
    except OSError:
        return False
