"""Each kind of fault keeps its law in a running fabric, within 5 %. Counted where a count says it: cells that ports passed against
cells that came in, bytes that arrived while the switch's own clock ran. The laws in virtual time are in fault_laws_test.cc."""
import json
import subprocess
import time
import unittest

import harness
from weft_case import ECHO, WeftCase

LAW = 0.05
CELLS = 20_000  # of which a rule strikes a tenth: two standard deviations are 4 %, and the seeds are fixed


class FaultLawTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.up(ECHO + 'nic = "echo"\n')
        self.switch = harness.StatsPage(self.state / "t" / "s1.stats")
        self.host = harness.StatsPage(self.state / "t" / "h1.stats")
        self.unit = harness.StatsPage(self.state / "t" / "u1.stats")

    def fault(self, *words):
        code, text, errors = self.weft("fault", *words)
        self.assertEqual(code, 0, errors)
        return text

    def rule(self):
        (rule,) = json.loads(self.fault("list", "--json"))["faults"]
        return rule

    def frames(self, *words):
        """Sends frames through host and unit and back until all have come."""
        code, text, errors = self.weft("traffic", "h1", "--bulk-only", "--json", *words, seconds=90)
        self.assertEqual(code, 0, text + errors)

    def flood(self, *words):
        """Frames without end."""
        process = self.start("traffic", "h1", "--bulk-only", "--duration", "60", *words, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        before = self.arrived()
        harness.wait_for(lambda: self.arrived() > before + 50, "frames to flow")
        return process

    def arrived(self):
        return self.unit.total(r"adapter\.port\.1\.cells_received")

    def cells(self):
        """What the ports took and gave, and what a fault took; at rest."""
        def look():
            return tuple(self.switch.total(rf"port\.\d+\.{name}") for name in ("cells_in", "cells_out", "drop_fault"))
        last = look()
        while True:
            time.sleep(0.3)
            now = look()
            if now[2] == last[2] and now[0] - last[0] < 20:  # keep-alives go on
                return now
            last = now

    def near(self, measured, figure, message=""):
        self.assertLess(abs(measured - figure), LAW * figure, f"{message}: {measured} where {figure} is the law")

    def share(self, kind, value, expected):
        """The share of cells struck; and what ports counted meanwhile."""
        before = self.cells()
        self.fault("s1", kind, value, "--seed", "11")
        self.frames("--frames", "12000")
        rule = self.rule()
        self.fault("clear")
        after = self.cells()
        self.assertGreater(rule["matched"], CELLS)
        self.near(rule["struck"], expected * rule["matched"], kind)
        return rule, *(b - a for a, b in zip(before, after))

    def test_drop_and_corrupt_take_their_share(self):
        for kind in ("drop", "corrupt"):
            with self.subTest(kind=kind):
                rule, came, went, lost = self.share(kind, "10%", 0.1)
                self.assertEqual(came - went, lost)
                self.assertLessEqual(abs(lost - rule["struck"]), LAW * rule["struck"], "cells went on until the rule was cleared")

    def test_duplicate_adds_its_share(self):
        def surplus():
            pages = (self.host, self.unit)
            return sum(page.total(r"link\.cells_received") - page.total(r"link\.cells_sent") for page in pages)
        before = surplus()
        rule, came, went, lost = self.share("duplicate", "10%", 0.1)
        self.assertEqual((came - went, lost), (0, 0), "the switch counts a copy as come and gone")
        self.near(surplus() - before, rule["struck"], "cells that came twice")

    def test_reorder_strikes_its_share_and_loses_none(self):
        before = self.unit.total(r"unit\.acceptor\.session\.\d+\.qp\.1\.gaps_seen")
        _, came, went, lost = self.share("reorder", "10%", 0.1)
        self.assertEqual((came - went, lost), (0, 0))
        self.assertGreater(self.unit.total(r"unit\.acceptor\.session\.\d+\.qp\.1\.gaps_seen"), before)

    def test_every_nth_is_struck(self):
        self.fault("s1", "drop", "--every", "25")
        self.frames("--frames", "12000")
        rule = self.rule()
        self.assertLessEqual(abs(rule["struck"] - rule["matched"] / 25), 1)

    def test_a_delay_lasts_as_long_as_it_says(self):
        """A round trip passes the port twice. It is never quicker than the rule says, and later only by what it takes without."""
        def median():
            code, text, errors = self.weft("traffic", "h1", "--round-trips", "100", "--frames", "1", "--json")
            self.assertEqual(code, 0, text + errors)
            return json.loads(text)["rtt_us"]["p50"]
        plain = median()
        self.fault("u1", "delay", "10ms")
        delayed = median()
        self.assertGreaterEqual(delayed, 20_000)
        self.assertLess(delayed, 20_000 * (1 + LAW) + plain)

    def rate(self, value, pattern, *words):
        """What arrives at u1 in a second."""
        self.fault("u1", "rate", value, "--direction", "to")
        self.flood(*words)
        time.sleep(0.3)
        start, before = time.monotonic(), self.unit.total(pattern)
        time.sleep(3)
        amount, seconds = self.unit.total(pattern) - before, time.monotonic() - start
        self.assertEqual(self.unit.total(r"link\.up"), 1)
        return amount / seconds

    def test_a_rate_in_bits_is_that_of_the_bytes_that_arrive(self):
        self.near(8 * self.rate("40Mbit", r"adapter\.port\.1\.bytes_received", "--size", "1500", "--window", "32"), 40e6, "bit/s")

    def test_a_rate_in_cells_is_that_of_the_cells_that_arrive(self):
        self.near(self.rate("4000", r"adapter\.port\.1\.cells_received", "--size", "500", "--window", "16"), 4000, "cells/s")

    def test_a_cut_lets_nothing_pass(self):
        self.flood()
        self.fault("u1", "cut", "--for", "600ms")
        time.sleep(0.1)  # what the switch had passed before
        before = self.arrived()
        time.sleep(0.3)
        self.assertEqual(self.arrived(), before)
        harness.wait_for(lambda: self.arrived() > before, "the cut to end")
        rule = self.rule()
        self.assertEqual(rule["struck"], rule["matched"])

    def test_a_flap_has_its_period(self):
        """Cells flow until the rule stops them, so the last ones before each gap come a whole number of periods after others. What
        comes after a gap waits for a retransmission timer and says less."""
        up, down = 0.2, 0.1
        self.flood("--window", "32")
        self.fault("u1", "flap", "200ms/100ms")
        edges, last, moved = [], self.arrived(), time.monotonic()
        end = moved + 9
        while moved < end:
            time.sleep(0.001)
            count, now = self.arrived(), time.monotonic()
            if count != last:
                if now - moved > down * (1 - LAW):
                    edges.append(moved)
                last, moved = count, now
        self.assertGreater(len(edges), 10)
        period = up + down
        phases = sorted(edge % period for edge in edges)
        most = int(0.8 * len(phases))  # but for those where the machine stood still
        around = phases + [phase + period for phase in phases]
        arc = min(around[i + most - 1] - around[i] for i in range(len(phases)))
        self.assertLess(arc, LAW * period, f"phases {phases} of the last cells before a gap")


if __name__ == "__main__":
    unittest.main()
