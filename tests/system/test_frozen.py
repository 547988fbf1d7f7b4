"""A host that stops harms nobody: SIGSTOP under load, again and again, and what its neighbour on unit and switch notices."""
import signal
import statistics
import time
import unittest

import frames
import harness

MACS = {name: f"02:00:00:00:77:{number:02x}" for number, name in enumerate(("healthy", "victim", "flooder"), 1)}
ROUNDS = 7
PERIOD_SECONDS = 1.2
FROZEN_SECONDS = 0.6
# What the requirement allows. Of the rounds' worst pauses the median counts: a core that is taken away from five processes
# and this test makes one round look bad, not most of them. That no pause at all is longer is shown in virtual time, where
# nothing else takes the core: FrozenHost and FrozenOutput (tests/unit/drivers, tests/unit/fabric).
PAUSE_SECONDS = 0.050
FRAME_BYTES = 1000
FRAMES_PER_SECOND = 1500


def octets(mac):
    return bytes.fromhex(mac.replace(":", ""))


class FrozenTest(unittest.TestCase):
    def setUp(self):
        self.fabric = harness.Fabric([*MACS, "unit"])
        self.addCleanup(self.fabric.close)
        self.fabric.switch()
        self.fabric.unit("unit", "echo")
        for name, mac in MACS.items():
            self.fabric.host(name, {"unit": f"unix:{self.fabric.directory}/{name}.sock"}, ["--mac", mac])
        self.fabric.start()
        self.streams = {name: frames.FrameStream(self.fabric.directory / f"{name}.sock") for name in MACS}
        for stream in self.streams.values():
            self.addCleanup(stream.close)
        self.echo = {name: frames.EchoTraffic(self.streams[name], mac=octets(MACS[name]), sizes=(98,), window=4)
                     for name in ("healthy", "victim")}
        for traffic in self.echo.values():
            traffic.run_frames(50)
            traffic.drain()
        self.flood = octets(MACS["victim"]) + octets(MACS["flooder"]) + b"\x88\xb5" + bytes(FRAME_BYTES - 14)
        self.flooded = 0

    def longest_pause(self, seconds):
        """Echo traffic of the healthy host beside frames for the victim; the longest time without an answer."""
        start = last = time.monotonic()
        sent = 0
        longest = 0.0
        while time.monotonic() - start < seconds:
            for _ in range(16):
                if sent >= (time.monotonic() - start) * FRAMES_PER_SECOND:
                    break
                if not self.streams["flooder"].send(self.flood):
                    break
                sent += 1
            self.flooded += sum(frame[:14] == self.flood[:14] for frame in self.streams["victim"].receive())
            good = self.echo["healthy"].step()
            now = time.monotonic()
            longest = max(longest, now - last)
            if good:
                last = now
        return longest

    def test_a_host_that_stops_again_and_again_costs_its_neighbour_less_than_50_ms(self):
        victim = self.fabric.processes["victim"]
        self.assertGreater(self.longest_pause(0.5), 0.0)
        self.assertGreater(self.flooded, 100, "the victim is under load")
        pauses = []
        for _ in range(ROUNDS):
            victim.signal(signal.SIGSTOP)
            try:
                pauses.append(self.longest_pause(FROZEN_SECONDS))
            finally:
                victim.signal(signal.SIGCONT)
            before = self.flooded
            self.longest_pause(PERIOD_SECONDS - FROZEN_SECONDS)
            self.assertGreater(self.flooded, before, f"the victim goes on\n{self.fabric.report()}")
        print("longest pause of the neighbour at each freeze, ms:", [round(pause * 1000) for pause in pauses])
        self.assertLess(statistics.median(pauses), PAUSE_SECONDS, f"{pauses}\n{self.fabric.report()}")
        # The victim's session is the one it had: it woke in time.
        self.assertEqual(victim.stats.total(r"(.*\.)?lost_.*"), 0, victim.report())
        self.echo["victim"].run_frames(50)


if __name__ == "__main__":
    unittest.main()
