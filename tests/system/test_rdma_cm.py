"""Stock programs of librdmacm, as Debian ships them, between two processes of one machine: each is an endnode of its own on a
spare port, and finds the other by an address of the host."""
import os
import random
import shutil
import signal
import subprocess
import threading
import unittest

import harness
from weft_case import WeftCase, end

LIBRARIES = harness.BIN.parent / "lib" / "weft"
LISTENS = "rdma_cm: LISTEN: done"
FABRIC = 'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n'


class StockCase(WeftCase):
    PROGRAMS = ()

    def setUp(self):
        if not (LIBRARIES / "verbs" / "libibverbs.so.1").exists():
            self.skipTest("the drop-in libibverbs is not built: libibverbs-dev is missing")
        missing = [program for program in self.PROGRAMS if shutil.which(program) is None]
        if missing:
            self.skipTest(f"missing: {missing} (packages rdmacm-utils and perftest)")
        super().setUp()
        self.up(FABRIC)
        self.stock = dict(self.environment, WEFT_FABRIC="t", WEFT_DEBUG="cm", LD_LIBRARY_PATH=str(LIBRARIES / "verbs"),
                          LD_PRELOAD=str(LIBRARIES / "libweft_preload.so"))

    def serve(self, *argv):
        """A server, once it listens: its Popen and where its output goes."""
        log = self.path / f"server-{random.randrange(1 << 30)}.log"
        with log.open("wb") as out:
            server = subprocess.Popen(list(map(str, argv)), stdout=out, stderr=subprocess.STDOUT, env=self.stock,
                                      stdin=subprocess.DEVNULL)
        self.addCleanup(end, server)
        harness.wait_for(lambda: LISTENS in log.read_text(errors="replace") or server.poll() is not None, "the server to listen")
        return server, log

    def run_client(self, *argv, seconds=60):
        return subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
                              env=self.stock, stdin=subprocess.DEVNULL)

    def pair(self, server_argv, client_argv, server_ends=True):
        """Both to their end; what the client printed."""
        server, log = self.serve(*server_argv)
        client = self.run_client(*client_argv)
        said = f"server:\n{log.read_text(errors='replace')}\nclient:\n{client.stdout}"
        self.assertEqual(client.returncode, 0, said)
        if server_ends:
            self.assertEqual(server.wait(timeout=30), 0, said)
        return client.stdout


class ConnectionTest(StockCase):
    PROGRAMS = ("rping", "ucmatose", "udaddy", "rdma_client", "rdma_xclient", "cmtime")

    def test_rping_verifies_its_data(self):
        for address in ("127.0.0.1", "::1"):
            self.pair(["rping", "-s", "-a", address, "-V", "-C", 30], ["rping", "-c", "-a", address, "-V", "-C", 30])

    def test_each_program_of_the_package(self):
        self.assertIn("test complete", self.pair(["ucmatose"], ["ucmatose", "-s", "127.0.0.1"]))
        self.assertIn("test complete", self.pair(["udaddy"], ["udaddy", "-s", "127.0.0.1"]))
        self.assertIn("rdma_client: end 0", self.pair(["rdma_server"], ["rdma_client", "-s", "127.0.0.1"]))
        self.assertIn("rdma_xclient: end 0", self.pair(["rdma_xserver"], ["rdma_xclient", "-s", "127.0.0.1"]))

    def test_many_connections(self):
        self.pair(["ucmatose", "-c", 50, "-C", 1], ["ucmatose", "-c", 50, "-C", 1, "-s", "127.0.0.1"])
        self.assertIn("connect", self.pair(["cmtime", "-c", 20], ["cmtime", "-c", 20, "-s", "127.0.0.1"], server_ends=False))

    def test_a_port_is_taken_for_others_of_the_host(self):
        """And free as soon as the process that had it was killed."""
        first, _ = self.serve("rping", "-s", "-p", 7200)
        second = self.run_client("rping", "-s", "-p", 7200)
        self.assertNotEqual(second.returncode, 0, second.stdout)
        self.assertIn("rdma_bind_addr: Cannot assign requested address", second.stdout)
        first.kill()
        first.wait()
        self.pair(["rping", "-s", "-p", 7200, "-C", 3], ["rping", "-c", "-a", "127.0.0.1", "-p", 7200, "-C", 3])

    def test_a_server_hears_of_the_death_of_its_client(self):
        server, log = self.serve("rping", "-s", "-p", 7201, "-v")
        client = subprocess.Popen(["rping", "-c", "-a", "127.0.0.1", "-p", "7201"], env=self.stock, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(end, client)
        harness.wait_for(lambda: "server ping data" in log.read_text(errors="replace"), "the connection")
        client.kill()
        client.wait()
        server.wait(timeout=30)
        self.assertIn("DISCONNECT EVENT", log.read_text(errors="replace"))

    def test_a_server_that_is_late_to_answer_is_found(self):
        """As one that joins later than its client after their switch was started anew."""
        server, log = self.serve("rping", "-s", "-a", "127.0.0.1", "-V", "-C", 5)
        server.send_signal(signal.SIGSTOP)
        goes_on = threading.Timer(0.8, server.send_signal, [signal.SIGCONT])
        goes_on.start()
        self.addCleanup(goes_on.join)
        client = self.run_client("rping", "-c", "-a", "127.0.0.1", "-V", "-C", 5)
        self.assertEqual(client.returncode, 0, f"{client.stdout}\nserver:\n{log.read_text(errors='replace')}")
        self.assertEqual(server.wait(timeout=30), 0)

    def test_nobody_listens(self):
        client = self.run_client("rping", "-c", "-a", "127.0.0.1", "-C", 1)
        self.assertNotEqual(client.returncode, 0, client.stdout)
        self.assertIn("RDMA_CM_EVENT_REJECTED", client.stdout)

    def test_nobody_has_the_address(self):
        client = self.run_client("rping", "-c", "-a", "203.0.113.9", "-C", 1)
        self.assertNotEqual(client.returncode, 0, client.stdout)
        self.assertIn("RDMA_CM_EVENT_ADDR_ERROR", client.stdout)


class SocketTest(StockCase):
    PROGRAMS = ("rcopy", "rstream")

    def test_rcopy_copies(self):
        source = self.path / "source"
        source.write_bytes(random.Random(7).randbytes(3_000_001))
        self.pair(["rcopy"], ["rcopy", source, f"127.0.0.1:{self.path}/copy"], server_ends=False)
        self.assertEqual((self.path / "copy").read_bytes(), source.read_bytes())

    def test_rstream_streams(self):
        for options in ([], ["-T", "b"]):
            self.pair(["rstream", *options, "-S", 65536, "-C", 50], ["rstream", *options, "-S", 65536, "-C", 50, "-s", "127.0.0.1"])


class PreloadTest(StockCase):
    """What has nothing to do with RDMA runs as ever, and what looks for devices finds ours."""

    def run_stock(self, *argv, **extra):
        return subprocess.run(argv, capture_output=True, text=True, env=dict(self.stock, **extra), timeout=60)

    def test_other_programs_notice_nothing(self):
        data = self.path / "data"
        data.write_text("some text\n" * 1000)
        for argv in (["cat", str(data)], ["ls", "-l", "/usr"], ["sh", "-c", "cat <" + str(data) + " | sort | uniq -c; exit 3"],
                     ["stat", "-c", "%F", "/dev/null", "/sys/class/net"]):
            with_us, without = self.run_stock(*argv), subprocess.run(argv, capture_output=True, text=True)
            self.assertEqual((with_us.returncode, with_us.stdout, with_us.stderr),
                             (without.returncode, without.stdout, without.stderr), argv)

    def test_device_nodes_are_character_devices(self):
        for node in ("rdma_cm", "uverbs0"):
            found = self.run_stock("stat", "-c", "%F", f"/dev/infiniband/{node}")
            self.assertEqual(found.stdout, "character special file\n", found.stderr)

    def test_system_files_show_the_device(self):
        root = self.path / "sys"
        root.mkdir(mode=0o700)
        port = "/sys/class/infiniband/weft0/ports/1"
        found = self.run_stock("cat", f"{port}/state", f"{port}/link_layer", f"{port}/counters/port_rcv_packets",
                               WEFT_SYSFS=str(root))
        self.assertRegex(found.stdout, r"^4: ACTIVE\nInfiniBand\n\d+\n$", found.stderr)
        more = self.run_stock("cat", "/sys/class/infiniband/weft0/hw_counters/qp_errors", f"{port}/hw_counters/downs",
                              f"{port}/gid_attrs/types/0", WEFT_SYSFS=str(root))
        self.assertEqual(more.stdout, "0\n0\nIB/RoCE v1\n", more.stderr)
        listed = self.run_stock("ls", "/sys/class/infiniband", WEFT_SYSFS=str(root))
        self.assertEqual(listed.stdout, "weft0\n", listed.stderr)

    def test_without_a_fabric_nothing_changes(self):
        if os.path.exists("/dev/infiniband"):
            self.skipTest("this machine has RDMA devices of its own")
        environment = {name: value for name, value in self.stock.items() if name != "WEFT_FABRIC"}
        found = subprocess.run(["stat", "/dev/infiniband/rdma_cm"], capture_output=True, text=True, env=environment)
        self.assertNotEqual(found.returncode, 0)

    def test_what_programs_do_with_descriptors_and_paths(self):
        root = self.path / "sys"
        root.mkdir(mode=0o700)
        done = self.run_stock(str(harness.BIN.parent / "tests" / "preload_probe"), WEFT_SYSFS=str(root))
        wrong = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
        self.assertEqual((done.returncode, wrong, done.stderr), (0, [], ""), done.stdout)
        self.assertGreater(done.stdout.count("ok "), 40)

    def test_each_port_shows_its_own_counters(self):
        root = self.path / "sys"
        root.mkdir(mode=0o700)
        done = self.run_stock(str(harness.BIN.parent / "tests" / "preload_probe"), "two-ports", WEFT_SYSFS=str(root), WEFT_ADAPTERS="2")
        wrong = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
        self.assertEqual((done.returncode, wrong), (0, []), done.stdout + done.stderr)

    def test_no_device_of_the_kernel_is_asked_for(self):
        code = "import socket\ntry: socket.socket(16, socket.SOCK_RAW, 20)\nexcept OSError as e: print(e.errno)"
        self.assertEqual(self.run_stock(shutil.which("python3"), "-c", code).stdout, "93\n")


if __name__ == "__main__":
    unittest.main()
