"""Programs in containers that have one directory in common and nothing else: own roots, processes, networks and shared memory. They are
endnodes of one fabric, and RC between them goes through memory. If they have processes and users in common, the kernel copies between
them. docs/window.md promises it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import harness
from test_run import has_library
from weft_case import SOURCE, WeftCase, die_with_test

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "stock"))
from kill_runs import CLOSED_ITS_CHANNEL  # noqa: E402  (found through the line above)

UNSHARE = ["unshare", "--mount", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
OWN_USERS, OWN_PROCESSES = ["--user", "--map-root-user"], ["--pid"]
NOBODY = 65534
ADDRESS = "192.0.2.1"  # of the server, for connection management
AS_RECORDS = "as records through shared memory: the other process has no number here"
BY_KERNEL = "direct: the kernel copies between the processes"
REFUSED = "as records through shared memory: the kernel refuses copies between the processes"
PINGS = 20
RPING = ("rping", "-v", "-V", "-S", "30000", "-C", PINGS, "-a")


def as_nobody(words):
    return [*harness.as_user(NOBODY), *words] if harness.IS_ROOT else words


def containers_work():
    probe = [*UNSHARE, *OWN_USERS, *OWN_PROCESSES, "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    return shutil.which("unshare") and subprocess.run(as_nobody(probe), capture_output=True).returncode == 0


def kill(process):
    """Ends the container: unshare heeds no SIGTERM."""
    process.kill()
    process.wait(10)


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(containers_work(), "no user namespaces here")
@unittest.skipUnless(shutil.which("rping") and shutil.which("ib_send_bw"), "rdmacm-utils or perftest is not installed")
class ContainersTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.own_users, self.own_processes = True, True
        self.shared = self.path / "shared"
        self.shared.mkdir(mode=0o700)
        self.give_to(NOBODY)

    def give_to(self, user):
        if harness.IS_ROOT:
            for path in (self.path, self.shared):
                os.chown(path, user, user)

    def container(self, *words):
        """A command in a container of its own, which ends with the test, and the file with what it says."""
        output = self.path / f"said-{len(list(self.path.glob('said-*')))}"
        unshare = [*UNSHARE, *(OWN_USERS if self.own_users else []), *(OWN_PROCESSES if self.own_processes else [])]
        inside = ["/usr/bin/python3", "-B", SOURCE / "tests" / "system" / "container.py", "own" if self.own_processes else "host",
                  self.bin.parent, self.shared]
        command = list(map(str, [*unshare, *inside, *words]))
        environment = {"PATH": "/weft/bin:/usr/bin:/usr/sbin:/bin:/sbin", "HOME": "/tmp", "WEFT_STATE_DIR": "/shared/state",
                       "WEFT_DEBUG": "verbs"}
        with output.open("wb") as out:
            process = subprocess.Popen(as_nobody(command) if self.own_users else command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env=environment, cwd="/", preexec_fn=die_with_test)
        self.addCleanup(kill, process)
        return process, output

    def start_fabric(self):
        """Runs in a container without programs."""
        (self.shared / "t.toml").write_text('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 4\n')
        (self.shared / "t.toml").chmod(0o644)
        _, said = self.container("weft", "up", "/shared/t.toml")
        harness.wait_for(lambda: "is up after" in said.read_text(), "the fabric to come up")

    def pair(self, server_options, client_options, words):
        """A server and its client, in two containers."""
        self.start_fabric()
        server = self.container("weft", "run", "-f", "t", "--node", "alice", "--ip", ADDRESS, *server_options, *words(True))
        harness.wait_for(lambda: "joined" in server[1].read_text(), "the server to join")
        return server, self.container("weft", "run", "-f", "t", "--node", "bob", *client_options, *words(False))

    def ping(self, options):
        """What server and client of rping say; its data were right."""
        said = []
        for process, output in self.pair(options[0], options[1], lambda serves: [*RPING, "0.0.0.0" if serves else ADDRESS,
                                                                                 "-s" if serves else "-c"]):
            status = process.wait(60)
            said.append(output.read_text())
            if (status, CLOSED_ITS_CHANNEL[1] in said[-1]) != (CLOSED_ITS_CHANNEL[0], True):
                self.assertEqual(status, 0, said[-1])
            self.assertEqual(said[-1].count("ping data: rdma-ping-"), PINGS)
        return said

    def expect_window(self, how):
        for said in self.ping([("--direct",), ("--direct",)]):
            self.assertEqual(len(re.findall(f"memory window to LID \\d+: {how}", said)), 1, said)

    def test_they_meet_in_the_state_directory(self):
        self.expect_window(AS_RECORDS)

    def test_those_that_see_the_same_processes_have_users_of_their_own(self):
        self.own_processes = False
        self.expect_window(REFUSED)

    @unittest.skipUnless(harness.IS_ROOT, "only root makes containers without a user namespace")
    def test_the_kernel_copies_between_those_with_common_processes_and_users(self):
        self.own_users = self.own_processes = False
        self.give_to(0)
        self.expect_window(BY_KERNEL)

    def test_status_in_one_of_them_shows_what_runs_in_another(self):
        self.start_fabric()
        process, said = self.container("weft", "status", "--fabric", "t", "--json")
        self.assertEqual(process.wait(30), 0, said.read_text())
        switch = json.loads(said.read_text())["nodes"][0]
        self.assertEqual((switch["name"], switch["running"], switch["ready"], switch["pid"]), ("s1", True, True, 0))

    def test_they_share_a_file(self):
        for said in self.ping([("--direct-file", f"/shared/window:{side}") for side in (0, 1)]):
            self.assertIn(": through the file /shared/window", said)

    def test_one_without_windows_is_reached_by_the_switch(self):
        for said in self.ping([("--direct",), ()]):
            self.assertNotIn("memory window to LID", said)

    def received(self, name):
        """Messages that the queue pairs of a program have received. The state directory is seen from outside, too."""
        words = [self.bin / "weft", "stat", "--fabric", "t", "--json", "--interval", "100", name]
        said = subprocess.run(as_nobody(list(map(str, words))), capture_output=True, text=True, timeout=30, cwd="/",
                              env={"PATH": os.environ["PATH"], "WEFT_STATE_DIR": str(self.shared / "state")}).stdout
        counters = json.loads(said)["counters"] if said else {}
        return sum(count for key, count in counters.items() if key.endswith(".messages_received"))

    def kill_one(self, options):
        """The other one always has requests under way. No process number tells it: the killed one has none in its container."""
        words = ("ib_send_bw", "-R", "-b", "-D", "60")
        server, client = self.pair(*options, lambda serves: words if serves else (*words, ADDRESS))
        harness.wait_for(lambda: self.received("alice") > 1000, "messages to flow")
        self.assertIn("memory window to LID", server[1].read_text())
        client[0].kill()
        status = server[0].wait(30)
        self.assertGreater(status, 0, server[1].read_text())
        self.assertRegex(server[1].read_text(), r"Failed status (5|12)\b")

    def test_a_container_that_is_killed_is_noticed(self):
        self.kill_one([("--direct",), ("--direct",)])

    def test_one_that_is_killed_beside_a_file_is_noticed(self):
        self.kill_one([("--direct-file", f"/shared/window:{side}") for side in (0, 1)])


if __name__ == "__main__":
    unittest.main()
