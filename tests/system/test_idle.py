"""Idle is idle: how often the processes of a fabric with nothing to carry wake, and what they cost. The numbers are printed;
the limits leave room for a loaded machine, not for a process that spins or polls."""
import json
import os
import pathlib
import time
import unittest

import harness
from weft_case import WeftCase

SECONDS = 10.0
# A second, for each link and each session a process holds: 4, and half as many again for a machine so busy that the
# parts of a keepalive arrive one by one.
WAKES_EACH = 4.0 * 1.5
CORE_SHARE = 0.01  # of a process with one session; 0.001 on a quiet machine with a release build
TICK = os.sysconf("SC_CLK_TCK")


class Sample:
    """What a process and its threads have done so far."""

    def __init__(self, pid):
        self.wakes = self.cpu_ns = 0
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    self.wakes += int(line.split()[1])
            self.cpu_ns += int((task / "schedstat").read_text().split()[0])
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        self.ticks = int(words[11]) + int(words[12])
        self.rss_kib = int(words[21]) * os.sysconf("SC_PAGE_SIZE") // 1024


class IdleTest(WeftCase):
    def watch(self, topology):
        """name -> (wake-ups a second, share of a core, yields a second), over SECONDS of an idle fabric."""
        self.file.write_text(topology)
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.addCleanup(self.weft, "down")
        status = json.loads(self.weft("status", "--json")[1])
        pids = {node["name"]: node["pid"] for node in status["nodes"]}
        pids["launcher"] = status["launcher"]
        time.sleep(1.5)  # what opening the sessions has left to do
        pages = {name: harness.StatsPage(self.state / status["fabric"] / f"{name}.stats") for name in pids}
        before = {name: (Sample(pid), pages[name].read().get("loop.yields", 0)) for name, pid in pids.items()}
        time.sleep(SECONDS)
        figures = {}
        for name, pid in pids.items():
            (then, yields), now = before[name], Sample(pid)
            wakes = (now.wakes - then.wakes) / SECONDS
            share = max((now.cpu_ns - then.cpu_ns) / 1e9, (now.ticks - then.ticks - 1) / TICK) / SECONDS
            yielded = (pages[name].read().get("loop.yields", 0) - yields) / SECONDS
            figures[name] = (wakes, share, yielded)
            print(f"    {name:10} {wakes:6.1f} wake-ups/s {100 * share:6.3f} % of a core {yielded:6.1f} yields/s"
                  f" {now.rss_kib / 1024:6.1f} MiB", flush=True)
        return figures

    def test_an_idle_fabric_sleeps(self):
        figures = self.watch('fabric = "t"\n[[switch]]\nname = "s1"\n[[host]]\nname = "h1"\nos = "gen"\n'
                             '[[unit]]\nname = "u1"\nnic = "echo"\n')
        holds = {"s1": 2, "h1": 2, "u1": 2, "launcher": 1}  # links and sessions
        for name, (wakes, share, yields) in figures.items():
            self.assertLessEqual(wakes, WAKES_EACH * holds[name], name)
            self.assertLessEqual(share, CORE_SHARE, name)
            self.assertEqual(yields, 0, f"{name} yields in vain")

    def test_many_idle_hosts_cost_little(self):
        hosts = 12
        nodes = "".join(f'[[host]]\nname = "h{i}"\nos = "gen"\n' for i in range(1, hosts + 1))
        figures = self.watch(f'fabric = "t"\n[[switch]]\nname = "s1"\n[[unit]]\nname = "u1"\nnic = "echo"\n{nodes}')
        holds = {"s1": hosts + 1, "u1": hosts + 1, "launcher": hosts + 2}
        for name, (wakes, share, _) in figures.items():
            self.assertLessEqual(wakes, WAKES_EACH * holds.get(name, 2), name)
            self.assertLessEqual(share, CORE_SHARE * holds.get(name, 1), name)


if __name__ == "__main__":
    unittest.main()
