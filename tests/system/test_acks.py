"""Strict acknowledgement in a topology: the host asks for it when its session opens, and the unit does likewise."""
import json
import unittest

from run import covers
from weft_case import ECHO, WeftCase


class AcksTest(WeftCase):
    def acks_of_cells(self, key):
        """Acknowledgements for each cell of the host's session, while frames of many cells go to the unit."""
        fabric = self.up(ECHO.replace('os = "gen"\n', f'os = "gen"\n{key}').replace('[[switch]]', '[links]\ncell_payload = 256\n[[switch]]', 1))

        def figures():
            counters = json.loads(self.weft("stat", "--all", "--json")[1])["counters"]
            return [sum(value for name, value in counters.items()
                        if name.startswith("h1.unit.") and ".session.qp." in name and name.endswith(f".{what}"))
                    for what in ("cells_sent", "acks_received")]
        before = figures()
        code, text, errors = self.weft("traffic", "h1", "-n", 500, "--size", 1514)
        self.assertEqual(code, 0, text + errors)
        after = figures()
        fabric.terminate()
        fabric.wait(30)
        return (after[1] - before[1]) / (after[0] - before[0])

    @covers("SAN-XPORT-07")
    def test_each_cell_is_acknowledged(self):
        self.assertAlmostEqual(self.acks_of_cells('acks = "strict"\n'), 1.0, delta=0.02)
        self.assertLess(self.acks_of_cells(""), 0.7)


if __name__ == "__main__":
    unittest.main()
