"""The drop-in libibverbs under the programs of Debian's ibverbs-utils and perftest, unmodified, by library path alone."""
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

import harness
from weft_case import WeftCase

LIBRARY = harness.BIN.parent / "lib" / "weft" / "verbs" / "libibverbs.so.1"
FABRIC = 'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n'
PINGPONGS = [("ibv_rc_pingpong", "-n", "200"), ("ibv_rc_pingpong", "-n", "200", "-e"), ("ibv_rc_pingpong", "-n", "200", "-N"),
             ("ibv_rc_pingpong", "-n", "200", "-t"), ("ibv_rc_pingpong", "-n", "50", "-c", "-s", "1048576"),
             ("ibv_uc_pingpong", "-n", "200", "-c"), ("ibv_ud_pingpong", "-n", "200", "-c"),
             ("ibv_srq_pingpong", "-n", "200", "-c"), ("ibv_srq_pingpong", "-n", "200", "-e"),
             ("ibv_xsrq_pingpong", "-n", "100")]
PERFTESTS = [("ib_send_lat", "-n", "100"), ("ib_send_bw", "-n", "100", "-s", "65536"), ("ib_send_bw", "-n", "100", "-c", "UD"),
             ("ib_send_bw", "-n", "100", "-c", "XRC"),
             ("ib_write_lat", "-n", "20"), ("ib_write_bw", "-n", "100", "-s", "65536", "-q", "4"),
             ("ib_read_lat", "-n", "50"), ("ib_read_bw", "-n", "100", "-s", "65536"),
             ("ib_atomic_lat", "-n", "50"), ("ib_atomic_bw", "-n", "100")]
ROCE = [("ibv_rc_pingpong", "-n", "200", "-c", "-g", "1"), ("ibv_uc_pingpong", "-n", "200", "-g", "0"),
        ("ibv_ud_pingpong", "-n", "200", "-c", "-g", "1"), ("ib_send_bw", "-n", "100"), ("ib_send_bw", "-n", "100", "-c", "UD"),
        ("ib_send_bw", "-n", "100", "-c", "UD", "-g", "-x", "1"), ("ib_write_bw", "-n", "100", "-x", "3"), ("ib_read_lat", "-n", "50")]
ELF_SYMBOL = re.compile(r"^\s*\d+:\s+[0-9a-f]+\s+\d+\s+(FUNC|OBJECT)\s+(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+(?!UND)\S+\s+(\S+)$")


def exports(path, mark="@@"):
    """Names with their default versions; with the mark "@", also those that only older programs ask for."""
    listed = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
    return {match.group(2) for match in map(ELF_SYMBOL.match, listed.splitlines()) if match and mark in match.group(2)}


def installed(program):
    return shutil.which(program) is not None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipUnless(LIBRARY.exists(), "libibverbs-dev was missing when this tree was built")
class VerbsTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.environment["WEFT_FABRIC"] = "t"
        self.environment["LD_LIBRARY_PATH"] = str(LIBRARY.parent)

    def run_program(self, *argv, **extra):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=dict(self.environment, **extra))
        return done.returncode, done.stdout, done.stderr

    def up(self, *args, **kwargs):
        """The launcher's own library path is that of everybody."""
        own = self.environment.pop("LD_LIBRARY_PATH")
        process = super().up(*args, **kwargs)
        self.environment["LD_LIBRARY_PATH"] = own
        return process

    def pair(self, argv):
        """A server and a client of the same program; both must end well. @return what the client said"""
        port = str(free_port())
        server = subprocess.Popen([*argv, "-p", port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=self.environment)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        harness.wait_for(lambda: listens(port), f"{argv[0]} to listen")
        client = subprocess.run([*argv, "-p", port, "127.0.0.1"], capture_output=True, text=True, timeout=90,
                                env=self.environment)
        said = server.communicate(timeout=30)[0]
        self.assertEqual((server.returncode, client.returncode), (0, 0),
                         f"{argv}\nserver:\n{said}\nclient:\n{client.stdout}{client.stderr}")
        return client.stdout

    def test_exports_are_those_of_the_installed_library(self):
        real = next((path for path in pathlib.Path("/usr/lib").glob("*/libibverbs.so.1")), None)
        if real is None or not installed("readelf"):
            self.skipTest("libibverbs1 or readelf is not installed")
        missing = exports(real) - exports(LIBRARY)
        self.assertEqual(missing, set())
        older = {name for name in exports(real, "@") - exports(LIBRARY, "@") if not name.endswith("@IBVERBS_1.0")}
        self.assertEqual(older, {"ibv_register_driver@IBVERBS_1.1"}, "docs/verbs.md says which are left out, and why")

    def test_whoever_needs_libibverbs_loads_with_every_symbol_bound(self):
        loaded = 0
        for pattern in ("libmlx5.so.1", "libefa.so.1", "librdmacm.so.1", "ucx/libuct_ib.so.0", "libfabric.so.1"):
            for path in pathlib.Path("/usr/lib").glob(f"*/{pattern}"):
                code, _, said = self.run_program("/usr/bin/python3", "-c", f"import ctypes; ctypes.CDLL('{path}')",
                                                 LD_BIND_NOW="1")
                self.assertEqual((code, said), (0, ""), path)
                loaded += 1
        if loaded == 0:
            self.skipTest("no library that needs libibverbs is installed")

    def test_without_a_fabric_there_is_no_device_and_one_line_says_why(self):
        if not installed("ibv_devices"):
            self.skipTest("ibverbs-utils is not installed")
        code, out, said = self.run_program("ibv_devices")
        self.assertEqual((code, len(said.splitlines())), (0, 1), said)
        self.assertIn("no device: WEFT_FABRIC=t", said)
        self.assertNotIn("weft0", out)
        code, out, said = self.run_program("ibv_devices", WEFT_FABRIC="")
        self.assertEqual((code, said), (0, ""), "a program that looks for hardware hears nothing")
        self.assertNotIn("weft0", out)

    def test_devices_are_listed_and_described(self):
        if not installed("ibv_devinfo"):
            self.skipTest("ibverbs-utils is not installed")
        self.up(FABRIC)
        self.assertIn("weft0", self.run_program("ibv_devices")[1])
        code, out, said = self.run_program("ibv_devinfo", "-v")
        self.assertEqual((code, said), (0, ""))
        for line in ("PORT_ACTIVE (4)", "InfiniBand", "0x574546", "GID[  0]:\t\tfe80:"):
            self.assertIn(line, out)

    def test_a_port_of_roce(self):
        if not installed("ibv_devinfo") or not installed("ib_send_lat"):
            self.skipTest("ibverbs-utils or perftest is not installed")
        self.up(FABRIC)
        self.environment["WEFT_FLAVOUR"] = "roce"
        code, out, said = self.run_program("ibv_devinfo", "-v")
        self.assertEqual((code, said), (0, ""))
        for line in ("Ethernet", "GID[  1]:\t\tfe80::57:45ff:fe46:", "GID[  3]:\t\t::ffff:10.87.", "RoCE v1", "RoCE v2"):
            self.assertIn(line, out)
        self.assertRegex(out, r"port_lid:\s+0\n")
        for argv in ROCE:
            with self.subTest(argv):
                self.assertRegex(self.pair(argv), "usec/iter|#bytes")

    def test_pingpongs(self):
        if not installed("ibv_rc_pingpong"):
            self.skipTest("ibverbs-utils is not installed")
        self.up(FABRIC)
        for argv in PINGPONGS:
            with self.subTest(argv):
                self.assertRegex(self.pair(argv), "usec/iter|success")

    def test_perftest(self):
        if not installed("ib_send_lat"):
            self.skipTest("perftest is not installed")
        self.up(FABRIC)
        for argv in PERFTESTS:
            with self.subTest(argv):
                self.assertIn("#bytes", self.pair(argv))


def listens(port):
    """Without connecting, which the program would take for its peer."""
    wanted = f":{int(port):04X} "
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted.strip()) and fields[3] == "0A":
                return True
    return False


if __name__ == "__main__":
    unittest.main()
