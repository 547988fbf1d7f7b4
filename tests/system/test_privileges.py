"""Capabilities are the launcher's: switch, host and unit hold none before the first byte from the fabric can reach them."""
import pathlib
import unittest

import harness
import netns
from run import covers


def status_of(task):
    """Fields of /proc/TASK/status; `task` is "self", PID or PID/task/TID."""
    lines = pathlib.Path(f"/proc/{task}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


class PrivilegesTest(unittest.TestCase):
    def assert_none(self, process):
        # Every thread: a library's own threads are as exposed as ours.
        for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            try:
                fields = status_of(f"{process.pid}/task/{task.name}")
            except (FileNotFoundError, ProcessLookupError):
                continue  # the probe of whether threads may be made has ended
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(fields[name], 16), 0, f"{process.name}: {name} of thread {task.name}")
            self.assertEqual(fields["NoNewPrivs"].strip(), "1", process.name)

    def up(self, process):
        process.start()
        harness.wait_for(lambda: process.stats.read(), f"{process.name} has a stats page")
        return process

    @covers("DECISIONS-4")
    @unittest.skipIf(int(status_of("self")["CapEff"], 16) == 0, "there are no capabilities to drop; needs root")
    def test_endnodes_drop_everything_before_there_is_a_link(self):
        with harness.Fabric(["host", "unit"]) as fabric:
            switch = fabric.switch()
            unit = fabric.unit("unit", "echo")
            host = fabric.host("host", {"unit": "gen:"})
            for process in (unit, host):  # no switch runs: no byte of the fabric can have come
                self.up(process)
                self.assert_none(process)
            self.up(switch)
            self.assert_none(switch)
            for process in (unit, host):
                self.assert_none(process)

    @covers("DECISIONS-4")
    def test_a_descriptor_keeps_working_without_the_right_to_open_it(self):
        netns.require_root()
        with netns.Namespace("priv") as space, harness.Fabric(["host", "unit"], link="ipc") as fabric:
            fabric.switch()
            fabric.unit("unit", "echo")
            host = fabric.host("host", {"unit": "tap:weft0"}, namespace=space)
            fabric.start()
            for process in fabric.processes.values():
                harness.wait_for(lambda: process.stats.read(), f"{process.name} has a stats page")
                self.assert_none(process)
            harness.wait_for(lambda: host.stats.total(r"unit\..*opened") > 0, "the session opens over a TAP")


if __name__ == "__main__":
    unittest.main()
