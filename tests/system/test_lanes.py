"""The order of lanes that a topology asks for, at an output of a real switch."""
import subprocess
import unittest

import harness
from run import covers
from weft_case import WeftCase

PROBE = harness.BIN.parent / "tests" / "lane_probe"
CELL_PAYLOAD, LANES, CREDITS, ROUNDS = 256, 4, 16, 100


class LanesTest(WeftCase):
    def shares(self, lane, keys=""):
        """For each round of the probe: how many of the first cells that left for the receiver were of the lane."""
        fabric = self.up(f'fabric = "t"\n[links]\ncell_payload = {CELL_PAYLOAD}\nlanes = {LANES}\ncredits = {CREDITS}\n{keys}'
                         '[[switch]]\nname = "s1"\nspare_ports = 4\n')
        done = subprocess.run([PROBE, f"shm:{self.state}/t/s1.sock", *map(str, (CELL_PAYLOAD, LANES, CREDITS, ROUNDS))],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        fabric.terminate()
        fabric.wait(30)
        rounds = done.stdout.split()
        self.assertGreater(len(rounds), ROUNDS // 4, "rounds in which nobody was held up")
        return sorted(order[:CREDITS].count(lane) for order in rounds)

    @covers("SAN-VL-05")
    def test_a_high_lane_leaves_before_all_others(self):
        urgent = self.shares("3", 'high_lanes = ["3:64"]\n')
        self.assertEqual(urgent[len(urgent) // 2], CREDITS, f"the median round: {urgent}")
        alike = self.shares("3")
        self.assertLessEqual(alike[len(alike) // 2], CREDITS // 2, f"the median round: {alike}")

    def test_weights_share_an_output(self):
        # A cell of the probe takes three units of 64 bytes: weights for one cell, and for three.
        weighted = self.shares("1", 'low_lanes = ["0:3", "1:9", "2:3", "3:3"]\n')
        median = weighted[len(weighted) // 2]
        self.assertTrue(CREDITS // 2 - 1 <= median <= CREDITS // 2 + 1, weighted)


if __name__ == "__main__":
    unittest.main()
