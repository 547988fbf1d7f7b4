"""Orderly and less orderly ends: SIGTERM, SIGINT, the parent's death, and peers that only stand still."""
import os
import signal
import time
import unittest

import frames
import harness

MAC = "02:00:00:00:77:99"
PARENT_GONE_SECONDS = 1.0


class StopTest(unittest.TestCase):
    def setUp(self):
        self.fabric = harness.Fabric(["host", "unit"])
        self.addCleanup(self.fabric.close)
        self.fabric.switch()
        self.fabric.unit("unit", "echo")
        self.fabric.host("host", {"unit": f"unix:{self.fabric.directory}/frames.sock"}, ["--mac", MAC])
        self.fabric.start()
        stream = frames.FrameStream(self.fabric.directory / "frames.sock")
        self.addCleanup(stream.close)
        self.traffic = frames.EchoTraffic(stream, mac=bytes.fromhex(MAC.replace(":", "")), give_up_seconds=60.0)
        self.traffic.run_frames(50)

    def test_sigterm_and_sigint_end_each_program_with_0(self):
        for name, number in (("host", signal.SIGTERM), ("unit", signal.SIGINT), ("switch", signal.SIGTERM)):
            process = self.fabric.processes[name]
            process.signal(number)
            self.assertEqual(process.wait_exit(), 0, process.report())
        self.assertEqual(self.fabric.leftovers(), [])

    def test_programs_end_within_a_second_of_their_parent(self):
        for process in self.fabric.processes.values():
            process.close_parent_pipe()
        start = time.monotonic()
        for process in self.fabric.processes.values():
            process.wait_exit()
        self.assertLess(time.monotonic() - start, PARENT_GONE_SECONDS)
        self.assertEqual(self.fabric.leftovers(), [])

    def test_a_frozen_peer_is_back_pressure(self):
        """Nothing is lost while the unit, then the host's switch, stands still for less than the limits of liveness."""
        for name in ("unit", "switch", "host"):
            process = self.fabric.processes[name]
            self.traffic.run(0.1)
            process.signal(signal.SIGSTOP)
            self.traffic.run(0.7)
            process.signal(signal.SIGCONT)
            self.traffic.run_frames(200)
        self.traffic.drain()
        outcome = (self.traffic.lost, self.traffic.corrupted, self.traffic.duplicated, self.traffic.reordered,
                   len(self.traffic.waiting))
        self.assertEqual(outcome, (0, 0, 0, 0, 0), f"{self.traffic}\n{self.fabric.report()}")

    def test_a_frozen_switch_is_noticed_but_not_taken_for_dead(self):
        """Frozen for longer than a second: counted as stalled, the link stays, traffic goes on afterwards."""
        switch = self.fabric.processes["switch"]
        host = self.fabric.processes["host"]
        # On a busy machine the switch may stand longer than the session allows; then what is under way is lost.
        self.traffic.give_up_seconds = 5.0
        switch.signal(signal.SIGSTOP)
        try:
            harness.wait_for(lambda: self.traffic.step() >= 0 and host.stats.total(r"link\.peer_stalled") > 0,
                             "the host counts a stalled peer")
        finally:
            switch.signal(signal.SIGCONT)
        self.traffic.run_frames(200)
        self.assertEqual(host.stats.total(r"link\.peer_gone"), 0, host.report())


class SilenceTest(unittest.TestCase):
    """The silence limit of ZeroMQ links, at both ends: the switch watches a stopped host, the host a stopped switch."""

    def gone(self, link, silence, stopped_seconds):
        """How often host and switch took each other for dead after the other one was stopped."""
        with harness.Fabric(["host", "unit"], link=link, switch_options=["--silence", silence],
                            node_options=["--silence", silence]) as fabric:
            switch = fabric.switch()
            fabric.unit("unit", "echo")
            host = fabric.host("host", {"unit": "gen"})
            fabric.start()
            counts = []
            for stopped, other, link in ((switch, host, r"link\."), (host, switch, r"port\.1\.link\.")):
                counter = link + "peer_gone"
                harness.wait_for(lambda process=other, up=link + "up": process.stats.total(up) == 1, "the link to be up")
                before = other.stats.total(counter)
                stopped.signal(signal.SIGSTOP)
                try:
                    time.sleep(stopped_seconds)
                finally:
                    stopped.signal(signal.SIGCONT)
                time.sleep(0.3)  # for the other's next turn
                counts.append(other.stats.total(counter) - before)
            return counts

    def test_a_longer_limit_outlasts_a_stop_that_ends_a_link_by_default(self):
        self.assertEqual(self.gone("ipc", "8s", 2.5), [0, 0])

    def test_a_shorter_limit_ends_a_link_that_lives_by_default(self):
        host, switch = self.gone(f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}", "1s", 2.0)
        self.assertGreaterEqual(min(host, switch), 1, (host, switch))


if __name__ == "__main__":
    unittest.main()
