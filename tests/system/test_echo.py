"""Three and more processes: frames cross host, switch and unit and come back, over every kind of link."""
import os
import pathlib
import re
import unittest

import frames
import harness
from run import covers

MACS = [f"02:00:00:00:77:0{number}" for number in range(1, 5)]
FRAMES = 2000


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def shared_mappings(process):
    """Inodes of what a process maps shared and writable with others: rings, not files of its own."""
    found = set()
    for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines():
        _, rights, _, device, inode, *path = line.split(None, 5)
        if rights[3] == "s" and inode != "0" and not (path and path[0].endswith(".stats")):
            found.add((device, inode))
    return found


class EchoTest(unittest.TestCase):
    def station(self, fabric, name, number=0):
        """The test's end of a host's Unix socket interface."""
        stream = frames.FrameStream(fabric.directory / f"{name}.frames")
        self.addCleanup(stream.close)
        return frames.EchoTraffic(stream, mac=mac_bytes(MACS[number]), give_up_seconds=30.0)

    def interface(self, fabric, name):
        return f"unix:{fabric.directory}/{name}.frames"

    def echo_over(self, link, frames_count=FRAMES, **options):
        with harness.Fabric(["host", "unit"], link=link, **options) as fabric:
            fabric.switch()
            fabric.unit("unit", "echo")
            fabric.host("host", {"unit": self.interface(fabric, "host")}, ["--mac", MACS[0]])
            fabric.start()
            traffic = self.station(fabric, "host")
            traffic.run_frames(frames_count)
            traffic.drain()
            self.assertEqual((traffic.lost, traffic.corrupted, traffic.duplicated, traffic.reordered, len(traffic.waiting)),
                             (0, 0, 0, 0, 0), str(traffic))
            return {name: process.terminate() for name, process in fabric.processes.items()}, fabric.leftovers()

    def test_shared_memory(self):
        codes, sockets = self.echo_over("shm")
        self.assertEqual(codes, {"switch": 0, "unit": 0, "host": 0})
        self.assertEqual(sockets, [])

    def test_zmq_ipc(self):
        codes, sockets = self.echo_over("ipc")
        self.assertEqual(codes, {"switch": 0, "unit": 0, "host": 0})
        self.assertEqual(sockets, [])

    def test_a_core_binds_the_loop_and_not_the_threads_of_zmq(self):
        allowed = os.sched_getaffinity(0)
        core = max(allowed)
        with harness.Fabric(["host"], link="ipc") as fabric:
            switch = fabric.switch(["--core", str(core)])
            fabric.start()
            harness.wait_for(lambda: os.sched_getaffinity(switch.pid) == {core}, "the loop to be bound")

            def threads_of_zmq():  # each names itself once it runs
                return [int(task.name) for task in pathlib.Path(f"/proc/{switch.pid}/task").iterdir() if "IO/" in (task / "comm").read_text()]
            others, _ = harness.wait_for(threads_of_zmq, "a thread of ZeroMQ")
            for task in others:
                self.assertEqual(os.sched_getaffinity(task), allowed)

    def test_zmq_tcp_on_loopback_needs_no_keys(self):
        codes, _ = self.echo_over("tcp://127.0.0.1:17711", frames_count=300)
        self.assertEqual(codes, {"switch": 0, "unit": 0, "host": 0})

    def test_conformance_sizes(self):
        """Cells of 256 bytes in flits of 96."""
        sizes = ["--cell-payload", "256", "--flit-payload", "96"]
        codes, _ = self.echo_over("shm", frames_count=500, switch_options=sizes, node_options=sizes)
        self.assertEqual(codes, {"switch": 0, "unit": 0, "host": 0})

    def test_one_credit_and_flits_that_pass_before_their_cell_is_whole(self):
        sizes = ["--cell-payload", "256", "--flit-payload", "96", "--credits", "1"]
        codes, _ = self.echo_over("shm", frames_count=200, switch_options=[*sizes, "--cut-through"], node_options=sizes)
        self.assertEqual(codes, {"switch": 0, "unit": 0, "host": 0})

    @covers("PUSH-DRV-01")
    def test_the_halves_are_two_programs_and_meet_only_over_the_fabric(self):
        with harness.Fabric(["host", "unit"]) as fabric:
            switch = fabric.switch()
            unit = fabric.unit("unit", "echo")
            host = fabric.host("host", {"unit": self.interface(fabric, "host")}, ["--mac", MACS[0]])
            fabric.start()
            traffic = self.station(fabric, "host")
            traffic.run_frames(100)
            self.assertNotEqual(pathlib.Path(f"/proc/{host.pid}/exe").resolve(),
                                pathlib.Path(f"/proc/{unit.pid}/exe").resolve())
            self.assertTrue(shared_mappings(host) & shared_mappings(switch), "host and switch share their rings")
            self.assertEqual(shared_mappings(host) & shared_mappings(unit), set())
            switch.kill()
            traffic.run(0.2)
            received = traffic.received
            traffic.run(0.5)
            self.assertEqual(traffic.received, received, "without the switch nothing passes")
            switch.start()
            traffic.run_frames(100)

    @covers("PUSH-NODE-01 PUSH-NODE-04")
    def test_two_hosts_two_units_one_switch(self):
        """Each host reaches each unit; both hosts hold sessions on one unit and both move data."""
        with harness.Fabric(["left", "right", "east", "west"]) as fabric:
            fabric.switch()
            units = [fabric.unit("east", "echo"), fabric.unit("west", "echo")]
            stations = {}
            for number, host in enumerate(("left", "right")):
                fabric.host(host, {unit: self.interface(fabric, f"{host}-{unit}") for unit in ("east", "west")},
                            ["--mac", MACS[2 * number], "--mac", MACS[2 * number + 1]])
                for index, unit in enumerate(("east", "west")):
                    stations[host, unit] = self.station(fabric, f"{host}-{unit}", 2 * number + index)
            fabric.start()
            for station in stations.values():
                station.run_frames(100)
            for _ in range(200):  # all four at once
                for station in stations.values():
                    station.step()
            for path, station in stations.items():
                station.drain()
                self.assertEqual((station.lost, station.corrupted, station.duplicated, len(station.waiting)), (0, 0, 0, 0),
                                 f"{path}: {station}")
            for unit in units:
                moved = [value for name, value in unit.stats.read().items()
                         if re.fullmatch(r"unit\.acceptor\.session\.\d+\.frames_in", name)]
                self.assertEqual(len(moved), 2, f"{unit.name} has a session with each host")
                self.assertGreaterEqual(min(moved), 200, f"{unit.name}: both move data")


if __name__ == "__main__":
    unittest.main()
