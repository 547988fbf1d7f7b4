"""weft run where little is allowed: own user, mount, process, network and ipc namespaces, a root that nobody may write,
64 MiB of /dev/shm, no capability, no ptrace."""
import json
import os
import shutil
import subprocess
import unittest

import harness
from test_run import has_library
from weft_case import SOURCE, WeftCase, die_with_test

UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child",
           "--mount-proc"]
NOBODY = 65534
# Server, then client: both must end well. The switch's state, its pages and sockets, are in /dev/shm, the only place left.
TALK = """
weft run -- {program} {options} >/dev/shm/server 2>&1 & server=$!
for i in $(seq 400); do
  grep -qs ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6 && break
  sleep 0.05
done
weft run -- {program} {options} 127.0.0.1; echo client $?
wait $server; echo server $?
"""


def sandbox_works():
    probe = subprocess.run([*harness.as_user(NOBODY), *UNSHARE, "true"] if harness.IS_ROOT else [*UNSHARE, "true"],
                           capture_output=True)
    return probe.returncode == 0


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("unshare") and sandbox_works(), "no user namespaces here")
class SandboxTest(WeftCase):
    def inside(self, script, seconds=60):
        """A shell in a sandbox, as somebody without rights; what it said."""
        words = [*UNSHARE, "/usr/bin/python3", "-B", SOURCE / "tests" / "system" / "sandbox.py", "sh", "-c", script]
        if harness.IS_ROOT:
            words = [*harness.as_user(NOBODY), *words]
        environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": "/"}
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=seconds, env=environment, cwd="/",
                              stdin=subprocess.DEVNULL, preexec_fn=die_with_test)
        return done.stdout + done.stderr

    def talk(self, program, port, options, most_kib=32 * 1024):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")
        said = self.inside(TALK.format(program=program, port=port, options=f"-p {port} {options}")
                           + "df --output=used -k /dev/shm | tail -1; cat /dev/shm/server")
        self.assertIn("client 0\nserver 0\n", said)
        used = int(said.split("server 0\n")[1].split()[0])
        self.assertLess(used, most_kib, "of 64 MiB of /dev/shm")
        return said

    def test_pingpong(self):
        self.assertIn("100 iters", self.talk("ibv_rc_pingpong", 18515, "-n 100"))

    def test_bandwidth_of_large_messages(self):
        self.assertIn("1048576", self.talk("ib_send_bw", 18516, "-n 50 -s 1048576"))

    def test_several_pairs_share_what_there_is(self):
        """Eight programs at a time, each with its rings: memory files, which do not count against /dev/shm."""
        if shutil.which("ibv_rc_pingpong") is None:
            self.skipTest("ibverbs-utils is not installed")
        pairs = "".join("( " + TALK.format(program="ibv_rc_pingpong", port=port, options=f"-p {port} -n 50").replace(
            "/dev/shm/server", f"/dev/shm/server{port}") + ") & " for port in range(18520, 18524))
        said = self.inside(pairs + "wait")
        self.assertEqual((said.count("client 0"), said.count("server 0")), (4, 4), said)

    def test_status_and_doctor_from_within(self):
        said = self.inside("weft run -- sleep 20 & sleep 2; weft status --json; weft doctor --json")
        status, doctor = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
        self.assertTrue(status["state_dir"].startswith("/dev/shm/weft-"), status)
        self.assertTrue(all(node["ready"] for node in status["nodes"]))
        bad = {one["what"] for one in doctor["findings"] if not one["good"]}
        # The sandbox forbids ptrace, and with it process_vm_readv: doctor says what that costs.
        self.assertLessEqual(bad, {"cores", "memory calls"}, doctor)

    def test_without_any_place_to_write_it_says_what_to_set(self):
        said = self.inside("mkdir /dev/shm/x && chmod 500 /dev/shm/x && WEFT_STATE_DIR=/dev/shm/x/y weft run true; echo $?")
        self.assertIn("125", said)
        self.assertIn("WEFT_STATE_DIR", said)

    def test_a_full_dev_shm_is_told(self):
        said = self.inside("dd if=/dev/zero of=/dev/shm/ballast bs=1M count=63 2>/dev/null; weft run true; echo code $?;"
                           "dd if=/dev/zero of=/dev/shm/more bs=1M 2>/dev/null; weft run true; echo code $?")
        self.assertIn("code 125", said)
        self.assertRegex(said, "(?i)/dev/shm.*(space|free|room)")


if __name__ == "__main__":
    unittest.main()
