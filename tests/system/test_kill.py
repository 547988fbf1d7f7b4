"""kill -9 of host, unit and switch, 5 of each at random phases under load. scripts/soak does 50 of each."""
import unittest

import kills
import netns

KILLS = 5


class KillTest(unittest.TestCase):
    """Frames over the Unix socket interface: needs no privileges."""

    def kill_all(self, count, **options):
        with kills.KillRun(**options) as run:
            # Switch last: for 3 s after its return silence is forgiven, so that a peer may find its way back.
            for victim in ("host", "unit", "switch"):
                run.kills(victim, count)
            print(run.summary())

    def test_kills_over_shared_memory(self):
        self.kill_all(KILLS)

    def test_kills_over_zmq(self):
        self.kill_all(1, link="ipc")

    def test_kills_under_a_tap(self):
        netns.require_root()
        self.kill_all(2, tap=True)


if __name__ == "__main__":
    unittest.main()
