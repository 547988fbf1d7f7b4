"""Bad input gets a clear answer and does no harm: command lines, permissions, busy things, handshakes made by hand."""
import os
import socket
import unittest

import frames
import harness
import hello
import netns

NOBODY = 65534
MAC = "02:00:00:00:77:99"
GOOD = {
    "weft-switch": ["--guid", "020000000000ff00", "--node", "a=0200000000000001:1"],
    "weft-host": ["--guid", "0200000000000001", "--lid", "1", "--switch", "shm:/nowhere/switch.sock", "--unit", "2", "--os",
                  "gen:"],
    "weft-iou": ["--guid", "0200000000000002", "--lid", "2", "--switch", "shm:/nowhere/switch.sock", "--nic", "echo"],
}
# program, options in the place of or after the good ones, what the one line says
WRONG_USE = [
    ("weft-switch", ["--no-such-option"], "no-such-option"),
    ("weft-switch", ["--node", "a"], "a"),
    ("weft-switch", ["--node", "b=0200000000000002:0"], "LID"),
    ("weft-switch", ["--node", "b=0200000000000002:70000"], "LID"),
    ("weft-switch", ["--node", "b=xyz:2"], "xyz"),
    ("weft-switch", ["--listen", "udp://127.0.0.1:1"], "udp://"),
    ("weft-switch", ["--cell-payload", "100"], "256"),
    ("weft-switch", ["--lanes", "16"], "15"),
    ("weft-host", ["--no-such-option"], "no-such-option"),
    ("weft-host", ["--switch", "carrier-pigeon"], "carrier-pigeon"),
    ("weft-host", ["--os", "tap"], "--os"),
    ("weft-host", ["--os", "teapot:x"], "teapot"),
    ("weft-host", ["--mac", "02:00"], "02:00"),
    ("weft-host", ["--mac", "01:00:00:00:00:01"], "01:00:00:00:00:01"),
    ("weft-host", ["--mtu", "20"], "mtu"),
    ("weft-host", ["--mode", "fast"], "fast"),
    ("weft-host", ["--encoding", "xml"], "xml"),
    ("weft-host", ["--pool", "2048"], "2048"),
    ("weft-iou", ["--no-such-option"], "no-such-option"),
    ("weft-host", ["--curve-secret", "/", "--curve-server", "/"], "cannot read /: it is a directory, not a file"),
    ("weft-switch", ["--curve-secret", "/dev/null", "--curve-allow", "/"], "cannot read /dev/null: it is a device"),
    ("weft-iou", ["--config", "/"], "--config: cannot read /: it is a directory, not a file"),
    ("weft-iou", ["--nic", "teapot"], "teapot"),
    ("weft-iou", ["--nic", "packet:"], "packet"),
    ("weft-iou", ["--lid", "zero"], "zero"),
]


class CommandLineTest(unittest.TestCase):
    def test_wrong_use_exits_2_with_one_line(self):
        with harness.Fabric([]) as fabric:
            for program, options, says in WRONG_USE:
                with self.subTest(program=program, options=options):
                    good = [word for word in GOOD[program]]
                    if options[0] in good:
                        at = good.index(options[0])
                        del good[at:at + 2]
                    code, _, errors = harness.run_program(program, "--name", "a", "--dir", fabric.directory, *good, *options)
                    self.assertEqual(code, 2, errors)
                    self.assertIn(says.lower(), errors.lower())
                    self.assertEqual(len(errors.strip().splitlines()), 1, errors)

    def test_what_is_missing_is_named(self):
        for program, option in (("weft-host", "--unit"), ("weft-host", "--switch"), ("weft-iou", "--nic")):
            with self.subTest(program=program, option=option), harness.Fabric([]) as fabric:
                good = list(GOOD[program])
                at = good.index(option)
                del good[at:at + 2]
                code, _, errors = harness.run_program(program, "--name", "a", "--dir", fabric.directory, *good)
                self.assertEqual(code, 2, errors)
                self.assertIn(option.lstrip("-"), errors)

    def test_a_core_that_is_not_there_ends_the_program(self):
        with harness.Fabric(["a"]) as fabric:
            for program, good in GOOD.items():
                code, _, errors = harness.run_program(program, "--name", "a", "--dir", fabric.directory, *good, "--core", "1023")
                self.assertEqual(code, 1, errors)
                self.assertIn("--core 1023: not a core that this process may use", errors)

    def test_help_and_version(self):
        for program in ("weft-switch", "weft-host", "weft-iou", "weft"):
            code, text, errors = harness.run_program(program, "--help")
            self.assertEqual((code, errors), (0, ""), program)
            self.assertIn(program, text)
            code, text, _ = harness.run_program(program, "--version")
            self.assertEqual(code, 0)
            self.assertRegex(text, r"\d+\.\d+\.\d+")

    def test_a_directory_that_others_may_enter_is_refused(self):
        with harness.Fabric(["a"]) as fabric:
            os.chmod(fabric.directory, 0o755)
            process = fabric.switch().start()
            self.assertEqual(process.wait_exit(), 1, process.report())
            self.assertRegex(process.stderr(), "chmod 700")

    def test_port_in_use(self):
        with socket.socket() as busy, harness.Fabric(["a"]) as fabric:
            busy.bind(("127.0.0.1", 0))
            busy.listen(1)
            endpoint = f"tcp://127.0.0.1:{busy.getsockname()[1]}"
            process = fabric.switch(["--listen", endpoint]).start()
            self.assertEqual(process.wait_exit(), 1, process.report())
            self.assertIn(endpoint, process.stderr())

    def test_a_second_switch_of_the_same_name(self):
        with harness.Fabric(["a"]) as fabric:
            first = fabric.switch().start()
            harness.wait_for(lambda: (fabric.directory / "switch.sock").exists(), "the switch listens")
            code, _, errors = harness.run_program("weft-switch", *first.argv[1:])
            self.assertEqual(code, 1, errors)
            self.assertIn("switch.sock", errors)
            self.assertTrue(first.alive())
            self.assertEqual(first.stats.pid(), first.pid, "the counters of the first are still its own")
            answer, connection = hello.join(fabric.directory / "switch.sock", hello.Message(guid=1, lid=1))
            connection.close()
            self.assertEqual(answer.kind, hello.REFUSE, "the first one still answers")


class TapTest(unittest.TestCase):
    def host_options(self, directory, tap):
        return ["--name", "a", "--dir", directory, "--guid", "0200000000000001", "--lid", "1", "--switch",
                f"shm:{directory}/switch.sock", "--unit", "2", "--os", f"tap:{tap}"]

    def test_without_permission_it_says_what_is_missing_and_what_works(self):
        if not os.path.exists("/dev/net/tun"):
            self.skipTest("no /dev/net/tun here; needs the kernel's module tun")
        user = NOBODY if harness.IS_ROOT else None
        with harness.Fabric(["a"], user=user) as fabric:
            code, _, errors = harness.run_program("weft-host", *self.host_options(fabric.directory, "weft-none0"), user=user)
            self.assertEqual(code, 1, errors)
            self.assertIn("CAP_NET_ADMIN", errors)
            self.assertRegex(errors, "gen:|unix:")

    def test_an_interface_in_use(self):
        netns.require_root()
        with netns.Namespace("busy") as place, harness.Fabric(["a", "b"]) as fabric:
            place.add_tap("wtap0")
            fabric.switch()
            first = fabric.host("a", {"b": "tap:wtap0"}, namespace=place)
            fabric.start("switch", "a")
            harness.wait_for(lambda: "LOWER_UP" in place.ip("link", "show", "wtap0") or first.stats.read(),
                             "the first host has the TAP")
            second = fabric.host("b", {"a": "tap:wtap0"}, namespace=place)
            second.start()
            self.assertEqual(second.wait_exit(), 1, second.report())
            self.assertRegex(second.stderr(), "(?i)wtap0.*(busy|in use)")
            self.assertTrue(first.alive())

    def test_a_missing_interface_of_the_unit(self):
        netns.require_root()
        with netns.Namespace("none") as place, harness.Fabric(["a", "b"]) as fabric:
            process = fabric.unit("a", "packet:nothere0", namespace=place).start()
            self.assertEqual(process.wait_exit(), 1, process.report())
            self.assertIn("nothere0", process.stderr())


class HandshakeTest(unittest.TestCase):
    """A switch under hand-made HELLOs, while a host and a unit that behave go on undisturbed."""

    def setUp(self):
        sizes = ["--cell-payload", "1024"]  # what hello.Message offers
        self.fabric = harness.Fabric(["host", "unit", "absent"], switch_options=sizes, node_options=sizes)
        self.addCleanup(self.fabric.close)
        self.switch = self.fabric.switch()
        self.fabric.unit("unit", "echo")
        self.fabric.host("host", {"unit": f"unix:{self.fabric.directory}/frames.sock"}, ["--mac", MAC])
        self.fabric.start()
        stream = frames.FrameStream(self.fabric.directory / "frames.sock")
        self.addCleanup(stream.close)
        self.traffic = frames.EchoTraffic(stream, mac=bytes.fromhex(MAC.replace(":", "")))
        self.traffic.run_frames(50)
        self.path = self.fabric.directory / "switch.sock"
        self.absent = int(self.fabric.nodes["absent"].guid, 16)

    def tearDown(self):
        self.traffic.run_frames(50)
        self.traffic.drain()
        self.assertEqual((self.traffic.lost, self.traffic.corrupted), (0, 0), str(self.traffic))

    def refusal(self, **fields):
        message = hello.Message(**{"guid": self.absent, "lid": 3, **fields})
        answer, connection = hello.join(self.path, message)
        connection.close()
        self.assertIsNotNone(answer, "the switch answers")
        self.assertEqual(answer.kind, hello.REFUSE)
        return answer.refusal

    def test_another_version(self):
        self.assertEqual(self.refusal(version_min=7, version_max=9), hello.REFUSED_VERSION)

    def test_unknown_guid(self):
        self.assertEqual(self.refusal(guid=0xBAD), hello.REFUSED_NOT_ALLOWED)

    def test_somebody_elses_lid(self):
        self.assertIn(self.refusal(lid=1), (hello.REFUSED_LID_TAKEN, hello.REFUSED_LID_INVALID, hello.REFUSED_NOT_ALLOWED))

    def test_another_cell_size(self):
        self.assertEqual(self.refusal(cell_payload_bytes=512), hello.REFUSED_CELL_PAYLOAD)

    def test_bytes_that_are_no_hello(self):
        good = hello.Message(guid=self.absent, lid=3).encode()
        for data in (b"x", good[:63], good + b"\0", b"\xff" * 64, good[:4] + b"\x09" + good[5:], good[:-1] + b"\x01"):
            with self.subTest(data=data[:8]):
                answer, connection = hello.join(self.path, data)
                connection.close()
                self.assertTrue(answer is None or answer.kind == hello.REFUSE)

    def test_connections_that_say_nothing(self):
        silent = []
        for _ in range(40):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(connection.close)
            connection.setblocking(False)
            try:
                connection.connect(str(self.path))
            except OSError:
                break  # the switch takes no more: as good an answer
            silent.append(connection)
        self.traffic.run_frames(50)


class VersionOfTheSwitchTest(unittest.TestCase):
    def test_a_host_says_that_the_switch_speaks_another_version(self):
        with harness.Fabric(["host", "unit"]) as fabric:
            switch = hello.FakeSwitch(fabric.directory / "switch.sock")
            self.addCleanup(switch.close)
            host = fabric.host("host", {"unit": "gen:"}).start()
            said = switch.serve_one(lambda _: hello.Message(kind=hello.REFUSE, refusal=hello.REFUSED_VERSION, version_min=7,
                                                            version_max=9))
            self.assertEqual((said.kind, said.lid, said.version_max), (hello.HELLO, 1, 2))
            harness.wait_for(lambda: "version" in host.report(), "the host says why")


if __name__ == "__main__":
    unittest.main()
