"""Between machines (issue 2, item 9): host, switch and unit in three network namespaces, links over zmq tcp with CURVE, the
cables delay and lose. And what happens without keys, or with the wrong ones."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import frames
import harness
import netns
from weft_case import SOURCE

DELAY_MS = 5
LOSS_PERCENT = 1
SWITCH_PORT = 7711
MAC = "02:00:00:00:77:99"


def keygen(directory, names):
    """Key pairs as `weft keygen` makes them: name -> (secret file, public file)."""
    code, _, errors = harness.run_program("weft", "keygen", "--dir", directory, *names)
    assert code == 0, errors
    return {name: (directory / f"{name}.secret", directory / f"{name}.public") for name in names}


class MachinesTest(unittest.TestCase):
    def setUp(self):
        netns.require_root()
        self.places = {role: netns.Namespace(role) for role in ("host", "switch", "unit")}
        for place in self.places.values():
            self.addCleanup(place.delete)
        for number, role in enumerate(("host", "unit"), 1):
            cable = netns.LossyCable(self.places[role], "fabric", f"10.9.{number}.1/24", self.places["switch"], f"to-{role}",
                                     f"10.9.{number}.254/24", DELAY_MS, LOSS_PERCENT, seed=number)
            self.addCleanup(cable.close)
        self.fabric = harness.Fabric(["host", "unit"], link=f"tcp://0.0.0.0:{SWITCH_PORT}")
        self.addCleanup(self.fabric.close)

    def build(self, stranger=None):
        """The three programs; the node named `stranger` has a key that nobody knows."""
        directory = self.fabric.directory
        keys = keygen(directory, ("switch", "host", "unit", "nobody"))
        allowed = directory / "allow"
        allowed.write_text("".join(f"{node.name} {node.guid} {keys[node.name][1].read_text().strip()}\n"
                                   for node in self.fabric.nodes.values()))
        self.fabric.switch(["--curve-secret", keys["switch"][0], "--curve-allow", allowed], self.places["switch"])
        for number, (name, make) in enumerate((("host", self.add_host), ("unit", self.add_unit)), 1):
            secret = keys["nobody" if name == stranger else name][0]
            self.fabric.link = f"tcp://10.9.{number}.254:{SWITCH_PORT}"
            make(["--curve-secret", secret, "--curve-server", keys["switch"][1]])

    def add_host(self, options):
        self.places["host"].add_tap("wtap0", "10.77.0.2/24")
        self.places["host"].ip("link", "set", "wtap0", "address", MAC)
        self.fabric.host("host", {"unit": "tap:wtap0"}, options, self.places["host"])

    def add_unit(self, options):
        self.fabric.unit("unit", "echo", options, self.places["unit"])

    def test_traffic_over_cables_that_delay_and_lose(self):
        with self.fabric:
            self.build()
            self.fabric.start()
            host = self.places["host"]
            harness.wait_for(lambda: "1 received" in host.exec("ping", "-c1", "-W1", "10.77.0.1", check=False),
                             "the first ping through the fabric", seconds=30)
            text = host.exec("ping", "-c", "20", "-i", "0.02", "-q", "10.77.0.1", check=False)
            least = float(re.search(r"= ([\d.]+)/", text).group(1))
            self.assertGreaterEqual(least, 4 * DELAY_MS, "the ping crossed both cables both ways")
            stream = frames.PacketStream(host, "wtap0")
            self.addCleanup(stream.close)
            traffic = frames.EchoTraffic(stream, mac=bytes.fromhex(MAC.replace(":", "")), give_up_seconds=60.0)
            traffic.run_frames(1000, seconds=60.0)
            traffic.drain(20.0)
            outcome = (traffic.lost, traffic.corrupted, traffic.duplicated, traffic.reordered, len(traffic.waiting))
            self.assertEqual(outcome, (0, 0, 0, 0, 0), str(traffic))

    def test_an_unknown_key_is_refused_and_counted(self):
        with self.fabric:
            self.build(stranger="host")
            self.fabric.start()
            switch = self.fabric.processes["switch"]
            harness.wait_for(lambda: switch.stats.total(r"admission.unknown_key") > 0, "the switch counts a refused key")
            host = self.fabric.processes["host"]
            harness.wait_for(lambda: "does not know our key" in host.stderr(), "the host says why")
            self.assertEqual(host.stats.total(r"link\.up"), 0)


class NoKeysTest(unittest.TestCase):
    """Needs no root."""

    def test_tcp_beyond_loopback_needs_keys(self):
        with harness.Fabric(["host"], link=f"tcp://0.0.0.0:{SWITCH_PORT}") as fabric:
            for process in (fabric.switch(), fabric.host("host", {"host": "gen:"})):
                process.start()
                self.assertEqual(process.wait_exit(), 2, process.report())
                self.assertRegex(process.stderr(), r"(?i)curve")
                self.assertIn("weft keygen", process.stderr())


def blocks(page):
    """Scripts of a page, one for each of its blocks of shell commands."""
    return re.findall(r"^```sh\n(.*?)^```$", (SOURCE / page).read_text(), re.M | re.S)


class PageTest(unittest.TestCase):
    """docs/machines.md, word for word: its example in namespaces by one command, and its two machines."""

    def setUp(self):
        netns.require_root()
        scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name)

    def test_the_example_runs_by_one_command_and_leaves_nothing(self):
        def namespaces():
            return {name for name in os.listdir("/run/netns") if not name.startswith(netns.PREFIX)}  # those are of other tests
        before = namespaces()
        environment = dict(os.environ, PATH=f"{harness.BIN}:{os.environ['PATH']}", TMPDIR=str(self.path))
        done = subprocess.run([SOURCE / "scripts" / "demo_machines", "sh", "-c",
                               "weft traffic h1 -n 500 && weft status && ls /run/netns"],
                              capture_output=True, text=True, timeout=80, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"port 1: up, h1 \(lid 1\) over zmq")
        left = [line for line in done.stdout.splitlines() if not line.startswith(netns.PREFIX)]
        self.assertEqual(left[-3:], ["left", "middle", "right"], done.stdout)
        self.assertEqual(namespaces(), before)
        self.assertEqual(os.listdir(self.path), [])

    @unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibverbs-utils is not installed")
    @unittest.skipUnless((harness.BIN.parent / "lib/weft/verbs/libibverbs.so.1").exists(), "the drop-in libibverbs is not built")
    def test_the_page_of_two_machines_can_be_pasted(self):
        a, b = netns.Namespace("a"), netns.Namespace("b")
        self.addCleanup(a.delete)
        self.addCleanup(b.delete)
        netns.connect(a, "lan0", "10.71.0.1/24", b, "lan0", "10.71.0.2/24")
        here, there = blocks("docs/machines.md")
        homes = {place: self.path / name for place, name in ((a, "a"), (b, "b"))}
        environments = {place: dict(os.environ, PATH=f"{harness.BIN}:{os.environ['PATH']}", WEFT_STATE_DIR=str(home / "state"))
                        for place, home in homes.items()}
        for home in homes.values():
            home.mkdir()
        self.addCleanup(lambda: subprocess.run([harness.BIN / "weft", "down"], env=environments[a], capture_output=True, timeout=30))
        server = subprocess.Popen(["bash", "-ec", here + "wait $!"], cwd=homes[a], env=environments[a], preexec_fn=a.enter,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        harness.wait_for(lambda: ":18515" in a.exec("ss", "-ltn"), "the server on a to listen")
        for name in ("bob.secret", "s1.public"):
            shutil.copy2(homes[a] / "keys" / name, homes[b])
        done = subprocess.run(["bash", "-ec", there], cwd=homes[b], env=environments[b], preexec_fn=b.enter, capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1000 iters", done.stdout)
        self.assertEqual(server.wait(20), 0)


if __name__ == "__main__":
    unittest.main()
