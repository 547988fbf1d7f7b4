"""A fabric over two network namespaces by ZeroMQ over tcp with CURVE: programs of weft run on both sides reach each other,
by a switch on each side, and by joining the switch of the other side directly."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import harness
import netns
from test_run import has_library
from weft_case import WeftCase

LEFT, RIGHT = "10.9.7.1", "10.9.7.2"
SPAN = """fabric = "span"
[curve]
keys = "{keys}"
[[switch]]
name = "s1"
netns = "{left}"
spare_ports = 4
listen = ["tcp://{left_ip}:{guests}"]
spare_keys = ["guest"]
[[switch]]
name = "s2"
netns = "{right}"
spare_ports = 4
[[link]]
switches = ["s1", "s2"]
link = "zmq"
endpoint = "tcp://{right_ip}:{link}"
"""


def listens_there(process, port):
    """Does somebody take TCP connections in the namespace of the process?"""
    tables = [pathlib.Path(f"/proc/{process.pid}/net/{name}") for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in lines)


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibverbs-utils is not installed")
class SpanTest(WeftCase):
    def setUp(self):
        super().setUp()
        netns.require_root()
        self.left, self.right = netns.Namespace("left"), netns.Namespace("right")
        for place in (self.left, self.right):
            self.addCleanup(place.delete)
        netns.connect(self.left, "span0", f"{LEFT}/24", self.right, "span0", f"{RIGHT}/24")
        self.keys = self.path / "keys"
        self.assertEqual(self.weft("keygen", "--dir", self.keys, "s1", "s2", "guest", "stranger")[0], 0)
        self.guests = 7700 + os.getpid() % 100
        self.up(SPAN.format(keys=self.keys, left=self.left.name, right=self.right.name, left_ip=LEFT, right_ip=RIGHT,
                            guests=self.guests, link=self.guests + 100))

    def talk(self, program, server, client, *options):
        """`server` and `client`: options of weft run."""
        argv = [program, "-p", "18515", *options]
        first = self.start("run", *server, *argv, namespace=self.left, stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: listens_there(first, 18515), f"{program} to listen")
        second = self.start("run", *client, *argv, LEFT, namespace=self.right, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = second.communicate(timeout=60)[0]
        self.assertEqual((first.wait(timeout=30), second.returncode), (0, 0), said)

    def passed(self, switch):
        return harness.StatsPage(self.state / "span" / f"{switch}.stats").total(r"port\.\d+\.cells_out")

    def remote(self, key="guest"):
        return ("--fabric", f"tcp://{LEFT}:{self.guests}", "--key", self.keys / f"{key}.secret", "--switch-key",
                self.keys / "s1.public")

    def test_a_switch_on_each_side(self):
        at_left, at_right = (("--fabric", "span", "--switch", name) for name in ("s1", "s2"))
        before = self.passed("s1"), self.passed("s2")
        self.talk("ibv_rc_pingpong", at_left, at_right, "-n", "200")
        for name, start in zip(("s1", "s2"), before):
            self.assertGreaterEqual(self.passed(name) - start, 400, f"what {name} passed on")
        if shutil.which("ib_send_bw"):
            self.talk("ib_send_bw", at_left, at_right, "-n", "100", "-s", "65536")

    def test_a_program_joins_the_switch_of_the_other_side(self):
        self.talk("ibv_rc_pingpong", ("--fabric", "span", "--switch", "s1"), self.remote(), "-n", "200")
        carriers = {port["carrier"] for node in json.loads(self.weft("status", "--json")[1])["nodes"] if node["name"] == "s1"
                    for port in node["ports"]}
        self.assertLessEqual(carriers, {"", "shm", "zmq"})

    def test_connections_by_address(self):
        if shutil.which("rping") is None or not (harness.BIN.parent / "lib/weft/libweft_preload.so").exists():
            self.skipTest("rdmacm-utils is not installed")
        server = self.start("run", "--fabric", "span", "--switch", "s1", "rping", "-s", "-C", "5", "-V", "-a", LEFT,
                            namespace=self.left, stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: "rping" in self.weft("devices")[1], "the server to join")
        for attempt in range(20):  # until it listens, which nobody outside sees
            client = self.start("run", "--fabric", "span", "--switch", "s2", "rping", "-c", "-C", "5", "-V", "-a", LEFT,
                                namespace=self.right, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = client.communicate(timeout=60)[0]
            if client.returncode == 0:
                break
        self.assertEqual((client.returncode, server.wait(timeout=30)), (0, 0), said)

    def test_a_key_that_the_switch_does_not_know(self):
        guest = self.start("run", *self.remote("stranger"), "env", "WEFT_DEBUG=verbs", "ibv_devinfo", namespace=self.right,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = guest.communicate(timeout=60)[0]
        self.assertNotEqual(guest.returncode, 0)
        self.assertIn("does not know our key", said)
        stats = harness.StatsPage(self.state / "span" / "s1.stats")
        harness.wait_for(lambda: stats.total(r"admission.unknown_key") > 0, "the switch to count it")

    def test_words_that_do_not_go_together(self):
        for words, hint in ((("--key", "x"), "tcp://"), ((*self.remote(), "--node", "n"), "--node"),
                            (self.remote()[:4], "must be given together"), (self.remote("nobody"), "nobody.secret")):
            with self.subTest(words=words):
                code, _, errors = self.weft("run", *words, "true")
                self.assertEqual(code, 125)
                self.assertIn(hint, errors)


if __name__ == "__main__":
    unittest.main()
