"""One switch and a cable to each machine: when it is pulled, packets are dropped silently; plugged in, they flow
again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.proof.apart import command
from tests.proof.processes import with_us

SWITCH, SWITCH_ADDRESS, SUBNET = "switch", "10.77.0.1", "10.77.0.0/24"


def lay_switch() -> None:
    """Create the switch; the servers are attached to it directly."""
    # A fixed address: otherwise the switch takes that of a port, and another one when that cable is pulled, and
    # machines without a fault would not find it for a minute.
    command("ip", "link", "add", SWITCH, "address", "02:00:00:00:00:01", "type", "bridge")
    command("ip", "address", "add", f"{SWITCH_ADDRESS}/24", "dev", SWITCH)
    command("ip", "link", "set", SWITCH, "up")


class Cable:
    """A network namespace, kept open by a sleeping process, and its cable to the switch."""

    def __init__(self, number: int) -> None:
        self._port = f"machine{number}"
        self.address = f"10.77.0.{10 + number}"
        self._holder = subprocess.Popen(with_us(["unshare", "--net", "sleep", "infinity"]))
        self._await_namespace()
        peer = ["peer", "name", "eth0", "netns", str(self._holder.pid)]
        command("ip", "link", "add", self._port, "type", "veth", *peer)
        command("ip", "link", "set", self._port, "up")
        for fields in (
            ["link", "set", "lo", "up"],
            ["address", "add", f"{self.address}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
        ):
            command(*self.inside(["ip", *fields]))
        self.plug()

    def inside(self, fields: Sequence[str]) -> list[str]:
        """Return the command that runs these arguments at the far end of the cable."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *fields]

    def pull(self) -> None:
        """Drop the packets silently. The state `down` is not used, because both ends would be notified."""
        command("ip", "link", "set", self._port, "nomaster")

    def plug(self) -> None:
        command("ip", "link", "set", self._port, "master", SWITCH)

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()

    def _await_namespace(self) -> None:
        ours = Path("/proc/self/ns/net").readlink()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{self._holder.pid}/ns/net").readlink() == ours:
            assert time.monotonic() < deadline, "no namespace for a machine"
            time.sleep(0.005)
