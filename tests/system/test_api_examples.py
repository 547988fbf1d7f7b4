"""The programs of docs/examples that use the C++ API. They join spare ports, as under `weft run`, which needs the drop-in library too."""
import json
import os
import signal
import subprocess
import unittest

import harness
from run import covers
from weft_case import EXAMPLES, WeftCase, end

PROGRAMS = harness.BIN.parent / "tests" / "examples"


class ApiExamplesTest(WeftCase):
    def run_example(self, name):
        """What the program prints; it ends well."""
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n')
        done = subprocess.run([PROGRAMS / name], capture_output=True, text=True, timeout=60,
                              env=dict(self.environment, WEFT_FABRIC=f"shm:{self.state}/t/s1.sock"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def says(self, name, line):
        self.assertEqual(self.run_example(name), line)

    def test_every_example_is_run(self):
        tested = {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")}
        self.assertLessEqual({path.stem for path in EXAMPLES.glob("*.cc")}, tested | {"remote_write"})

    def test_remote_write(self):
        self.assertRegex(self.run_example("remote_write"), 'LID [0-9]+ wrote "hello, fabric" into the memory of LID [0-9]+')

    @covers("SAN-XPORT-10 SAN-XPORT-11")
    def test_reliable_datagrams(self):
        self.says("reliable_datagrams", "one queue pair exchanged messages with 3 queue pairs on 2 endnodes")

    @covers("SAN-WQE-06")
    def test_paced(self):
        self.says("paced", "10 messages took at least 180 ms")

    @covers("SAN-RMP-12")
    def test_one_shot(self):
        self.says("one_shot", "each key served one write")

    @covers("TPT-REG-03 TPT-ULP-01")
    def test_register_by_request(self):
        self.says("register_by_request", "3 transfers, each under a key of its own")

    @covers("SAN-LMP-02 SAN-LMP-06 SAN-LMP-10 SAN-LMP-11 SAN-LMP-14")
    def test_address_spaces(self):
        said = self.run_example("address_spaces").splitlines()
        self.assertEqual(said[4:], ["peers reached the heap of the process by effective addresses, and nothing else"])
        self.assertEqual(said[0], "an address of the program is none of the process's")
        self.assertEqual(said[3], "a key has granted nothing while its segment was gone")
        self.assertEqual(said[1], "a write has crossed two pages that lie in reverse order")
        self.assertEqual(said[2], "a page that was swapped out has come back for a write")

    @covers("SAN-XPORT-16")
    def test_raw_packets(self):
        self.says("raw_packets", "packets of 2 protocols came to their queue pairs, and those of a third to none")

    @covers("TPT-ATT-02")
    def test_page_list(self):
        self.says("page_list", "one write filled a range of 4 pages that lie in no order")

    @covers("TPT-REG-08")
    def test_shared_region(self):
        self.says("shared_region", "two regions over one memory: one key writes, the other reads")

    @covers("SAN-XPORT-05")
    def test_two_paths(self):
        """A switch is killed while messages cross it."""
        self.up('fabric = "t"\n' + "".join(f'[[switch]]\nname = "{name}"\nspare_ports = 4\n' for name in ("left", "right")))
        _, text, _ = self.weft("status", "--json")
        pids = {node["name"]: node["pid"] for node in json.loads(text)["nodes"]}
        program = subprocess.Popen([PROGRAMS / "two_paths", *(f"shm:{self.state}/t/{name}.sock" for name in ("left", "right"))],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, program)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        self.assertEqual(program.stdout.readline(), "flowing\n", program.poll())
        os.kill(pids["left"], signal.SIGKILL)
        self.assertEqual(program.stdout.read(), "no message lost, no request failed\n", program.stderr.read())
        self.assertEqual(program.wait(10), 0)


if __name__ == "__main__":
    unittest.main()
