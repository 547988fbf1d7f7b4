"""A program that is stopped, as by a debugger: its peer waits for it, though its retries would have ended long before.
WEFT_STOPPED_SECONDS=10 by hand."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import harness
from test_run import has_library
from weft_case import WeftCase

STOPPED_SECONDS = float(os.environ.get("WEFT_STOPPED_SECONDS", "4"))


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
class StoppedTest(WeftCase):
    """One of two programs is stopped for much longer than its peer's retries last (0.54 s)."""

    def run_pair(self, program, stopped):
        port = 24000 + os.getpid() % 1000
        # No tests of the clock: the machine may be busy.
        words = (program, "-D", str(int(STOPPED_SECONDS) + 4), "-p", port, "-F")
        server = self.start("run", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.wait_for(lambda: self.listens(port), "the server to listen")
        client = self.start("run", *words, "127.0.0.1", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.wait_for(lambda: self.cells() > 1000, "the pair to be at work")
        victim = server if stopped == "server" else client
        os.kill(victim.pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        os.kill(victim.pid, signal.SIGCONT)
        told = {name: process.communicate(timeout=60)[0] for name, process in (("server", server), ("client", client))}
        self.assertEqual((server.returncode, client.returncode), (0, 0), told)
        for text in told.values():
            self.assertNotIn("ompletion with error", text)

    @staticmethod
    def listens(port):
        with open("/proc/net/tcp", encoding="ascii") as table4, open("/proc/net/tcp6", encoding="ascii") as table6:
            rows = [line.split() for table in (table4, table6) for line in table.readlines()[1:]]
        return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)

    def cells(self):
        code, out, _ = self.weft("stat", "--all", "--json")
        if code != 0:
            return 0
        return sum(value for name, value in json.loads(out)["counters"].items() if name.endswith(".cells_out"))

    def test_ib_write_bw_whose_server_is_stopped(self):
        self.run_pair("ib_write_bw", "server")

    def test_ib_send_lat_whose_client_is_stopped(self):
        self.run_pair("ib_send_lat", "client")


if __name__ == "__main__":
    unittest.main()
