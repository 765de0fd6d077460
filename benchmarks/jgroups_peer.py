"""JGroups' SEQUENCER, the peer of our total order: members are Java processes on loopback, over TCP.

The program and the configuration of a member are in `peers/jgroups`; the program is compiled for each benchmark.
JGroups is Debian's package, version 2.12, with the values that it ships for SEQUENCER. For throughput it bundles
messages: up to 64 KB, or what comes within 30 ms. For latency and failover bundling is off, or every message would
wait for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from group_case import GroupError
from group_members import DrivenGroup
from servers import HOST, free_ports

JAR = Path(os.environ.get("JGROUPS_JAR", "/usr/share/java/jgroups.jar"))
HOME = Path(__file__).parent / "peers" / "jgroups"
PROGRAM = "GroupMember"
HEAP = "1g"
COMPILE_S_MAX = 120.0
INSTALL = {
    "java": "apt-get install default-jdk-headless",
    "javac": "apt-get install default-jdk-headless",
    "jgroups": "apt-get install libjgroups-java",
}


def missing() -> str | None:
    """What has to be installed first, and how; None if nothing."""
    lacking = [name for name in ("java", "javac") if shutil.which(name) is None]
    lacking += [] if JAR.is_file() else ["jgroups"]
    if not lacking:
        return None
    return f"{' and '.join(lacking)} not installed: {'; '.join(dict.fromkeys(INSTALL[name] for name in lacking))}"


def version() -> str:
    command = ["java", "-cp", str(JAR), "org.jgroups.Version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False).stdout.split()
    return said[-1] if said else "unknown"


class JGroups(DrivenGroup):
    name = "jgroups"

    def start(self, members: int, bundled: bool) -> None:
        self.close()
        self._compile()
        ports = free_ports(members)
        self.starts += 1
        for number, port in enumerate(ports):
            settings = {
                "java.net.preferIPv4Stack": "true",
                "jgroups.bind_addr": HOST,
                "group.port": str(port),
                "group.hosts": ",".join(f"{HOST}[{each}]" for each in ports),
                "group.bundled": str(bundled).lower(),
            }
            command = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseParallelGC"]
            command += [f"-D{name}={value}" for name, value in settings.items()]
            command += ["-cp", f"{JAR}:{self.folder}", PROGRAM]
            self.members.join([*command, str(number), str(HOME / "sequencer.xml"), f"bench{self.starts}"])
        self.members.until_whole()

    def _compile(self) -> None:
        if (self.folder / f"{PROGRAM}.class").exists():
            return
        if needed := missing():
            raise GroupError(needed)
        command = ["javac", "-cp", str(JAR), "-d", str(self.folder), str(HOME / f"{PROGRAM}.java")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False)
        if done.returncode:
            raise GroupError(f"{PROGRAM}.java cannot be compiled: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    if needed := missing():
        sys.exit(needed)
    print(f"JGroups {version()} is installed. `octoloom bench group --only jgroups` measures it.")
