"""The launcher: what it starts, watches, restarts and cleans up. The programs are stand-ins that keep the contract with
the launcher and do nothing else, so these tests fail for the launcher's sake only."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import harness
import netns
from weft_case import ECHO, WeftCase, alive

NOBODY = 65534
STAND_IN = harness.BIN.parent / "tests" / "stand_in"
TAP = """fabric = "t"
[[switch]]
name = "s1"
[[host]]
name = "h1"
netns = "h1"
interface = "eth0"
addresses = ["10.9.1.1/24", "fd09::1/64"]
gateway = "10.9.1.254"
mtu = 4000
mac = "02:00:00:00:01:02"
[[unit]]
name = "u1"
nic = "tap"
netns = "lan"
interface = "lan0"
addresses = ["10.9.1.254/24"]
"""


class LauncherTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.bin = self.path / "bin"
        self.bin.mkdir()
        shutil.copy(harness.BIN / "weft", self.bin)
        for program in ("weft-switch", "weft-host", "weft-iou"):
            shutil.copy(STAND_IN, self.bin / program)

    def record(self):
        """name -> pid of the running record, and the launcher's pid under ''."""
        pids = {}
        for line in (self.state / "t" / "run").read_text().splitlines():
            words = line.split()
            if words[0] == "launcher":
                pids[""] = int(words[1])
            if words[0] == "process":
                pids[words[1]] = int(words[3])
        return pids

    def assert_nothing_left(self, pids):
        def gone():
            return not any(alive(pid) for pid in pids.values())
        harness.wait_for(gone, "all processes are gone", 2.0)

    def assert_clean(self):
        left = [entry.name for entry in (self.state / "t").iterdir() if entry.suffix != ".log"]
        self.assertEqual(sorted(left), ["lids", "lock", "started"])

    def test_up_and_ctrl_c_leave_nothing(self):
        process = self.up()
        pids = self.record()
        self.assertEqual(set(pids), {"", "s1", "h1", "u1"})
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10), 0)
        self.assert_nothing_left(pids)
        self.assert_clean()

    def test_detach_status_and_down(self):
        code, _, errors = self.weft("up", "--detach", self.file)
        self.assertEqual((code, errors), (0, ""))
        pids = self.record()
        code, text, _ = self.weft("status", "--json")
        status = json.loads(text)
        self.assertEqual(code, 0)
        self.assertEqual([(n["name"], n["ready"], n["pid"]) for n in status["nodes"]],
                         [(name, True, pids[name]) for name in ("s1", "u1", "h1")])
        self.assertIn(f"launcher pid {status['launcher']}\n", self.weft("status")[1])
        code, _, errors = self.weft("up", self.file)
        self.assertEqual(code, 1)
        self.assertIn("fabric 't' is already running", errors)
        self.assertEqual(self.weft("down")[0], 0)
        self.assert_nothing_left(pids)
        self.assert_clean()
        code, _, errors = self.weft("status")
        self.assertEqual((code, errors), (1, "weft status: no fabric is running; start one with weft up FILE\n"))
        for words in (["status"], ["stat"], ["traffic"], ["exec", "h1", "true"], ["capture", "h1", "-o", "x"]):
            code, text, errors = self.weft(words[0], "--fabric", "t", *words[1:])
            self.assertEqual((code, text), (1, ""), words)
            self.assertEqual(errors, f"weft {words[0]}: fabric 't' is not running in {self.state}; start it with weft up FILE\n")
        code, text, _ = self.weft("status", "--fabric", "t", "--json")
        ended = json.loads(text)
        self.assertEqual((code, ended["running"], ended["launcher"]), (1, False, 0))

    def test_what_dies_comes_back(self):
        process = self.up()
        for name in ("h1", "u1", "s1"):
            before = self.record()
            os.kill(before[name], signal.SIGKILL)
            harness.wait_for(lambda: self.record()[name] not in (0, before[name]), f"{name} is back", 3.0)
        self.assertTrue(all(re.search(rf"^process {name} \S+ \d+ \d+ 1$", (self.state / "t" / "run").read_text(), re.M)
                            for name in ("h1", "u1", "s1")))
        harness.wait_for(lambda: self.weft("status")[0] == 0, "all are ready again")
        process.terminate()
        self.assertEqual(process.wait(10), 0)

    def test_no_restart_says_that_it_stays_down(self):
        process = self.up(options=["--no-restart"])
        os.kill(self.record()["h1"], signal.SIGKILL)
        for line in process.stdout:
            if line.startswith("h1 killed by signal 9"):
                break
        self.assertTrue(line.endswith(": stays down\n"), line)
        self.assertEqual(self.weft("status")[0], 1)

    def test_logs_of_all_in_the_order_of_time_also_afterwards(self):
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        logs = self.state / "t"
        with open(logs / "s1.log", "a") as s1, open(logs / "h1.log", "a") as h1:
            s1.write("1795279077.000001 info weft-switch[1]: first\nof two lines\n1795279077.000003 info x[1]: third\n")
            h1.write("1795279077.000002 warn weft-host[2]: second\nnot yet whole")

        def check():
            code, text, errors = self.weft("logs", "--all", TZ="UTC")
            self.assertEqual((code, errors), (0, ""))
            self.assertEqual([line.split(None, 2) for line in text.splitlines() if " weft[" not in line],
                             [["11-21", "16:37:57.000001", "s1         info weft-switch[1]: first"],
                              ["11-21", "16:37:57.000001", "s1         of two lines"],
                              ["11-21", "16:37:57.000002", "h1         warn weft-host[2]: second"],
                              ["11-21", "16:37:57.000003", "s1         info x[1]: third"]])
        check()
        self.assertEqual(self.weft("down")[0], 0)
        check()
        self.assertEqual(len([line for line in self.weft("logs", "--all", "h1")[1].splitlines() if " weft[" not in line]), 1)
        code, _, errors = self.weft("logs", "h2")
        self.assertEqual(code, 1)
        self.assertIn("has no log of a node 'h2'; did you mean 'h1'? known: h1, s1, u1", errors)

    def test_a_log_that_was_begun_anew_is_followed(self):
        """A long log is renamed when its node starts again."""
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.assertEqual(self.weft("down")[0], 0)
        log, out = self.state / "t" / "s1.log", self.path / "out"
        with open(log, "a") as long:
            long.write(f"1795279077.000001 info x[1]: {'long ' * 1000}\n")
        with open(out, "w") as file:
            self.start("logs", "--all", "--follow", "s1", stdout=file)
        harness.wait_for(lambda: "long long" in out.read_text(), "the log of before")
        log.rename(log.with_suffix(".log.old"))
        log.write_text("1795279077.000002 info x[1]: anew\n")
        harness.wait_for(lambda: "x[1]: anew" in out.read_text(), "the new log")

    def test_the_cause_of_every_death_is_in_the_logs(self):
        """Also with --detach, when nobody reads what the launcher prints."""
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.addCleanup(self.weft, "down")
        for name, number in (("h1", signal.SIGSEGV), ("u1", signal.SIGKILL), ("s1", signal.SIGABRT)):
            before = self.record()[name]
            os.kill(before, number)
            harness.wait_for(lambda: self.record()[name] not in (0, before), f"{name} is back", 3.0)
            text = self.weft("logs", name)[1]
            self.assertRegex(text, rf"{name} killed by signal {int(number)} \({number.name}(, core dumped)?\): starts again in")
            self.assertRegex(text, rf"{name} starts: \S+, pid {self.record()[name]}")

    def test_logs_are_those_of_the_latest_run(self):
        for _ in range(2):
            self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
            pids = self.record()
            self.assertEqual(self.weft("down")[0], 0)
        text = self.weft("logs")[1]
        self.assertEqual(set(re.findall(r"starts: \S+, pid (\d+)", text)), {str(pids[name]) for name in ("s1", "u1", "h1")})
        self.assertEqual(len(re.findall(r"starts: ", self.weft("logs", "--all")[1])), 6)

    def test_a_dead_process_has_no_pid(self):
        self.up(options=["--no-restart"])
        os.kill(self.record()["h1"], signal.SIGKILL)
        harness.wait_for(lambda: self.record()["h1"] == 0, "h1 is reaped")
        nodes = {node["name"]: node for node in json.loads(self.weft("status", "--json")[1])["nodes"]}
        self.assertEqual((nodes["h1"]["pid"], nodes["h1"]["running"]), (None, False))
        self.assertRegex(self.weft("status")[1], r"(?m)^h1 +weft-host +- ")

    def test_exec_shows_the_interfaces_of_the_node_in_sys_too(self):
        netns.require_root()
        self.up(TAP)
        outside = sorted(os.listdir("/sys/class/net"))
        code, text, errors = self.weft("exec", "h1", "--", "ls", "/sys/class/net")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(sorted(text.split()), ["eth0", "lo"])
        self.assertEqual(sorted(os.listdir("/sys/class/net")), outside, "nobody else sees the mount")

    def test_exec_takes_the_options_of_the_command_and_its_exit_code(self):
        self.up()
        for words in (["h1", "--", "sh", "-c", "exit 7"], ["h1", "sh", "-c", "exit 7"], ["-f", "t", "h1", "sh", "-c", "exit 7"]):
            self.assertEqual(self.weft("exec", *words)[0], 7, words)
        for number in (signal.SIGKILL, signal.SIGTERM):
            # No process of ours stands between the command and its caller: a shell says 128 + N.
            killed = ["exec", "h1", "sh", "-c", f"kill -{int(number)} $$"]
            self.assertEqual(self.weft(*killed)[0], -number)
            shell = ["sh", "-c", '"$@"; exit $?', "sh", self.bin / "weft", *killed]
            self.assertEqual(subprocess.run(shell, env=self.environment, stderr=subprocess.DEVNULL).returncode, 128 + number)

    def test_exec_of_what_cannot_be_run_exits_like_a_shell(self):
        self.up()
        plain = self.path / "plain"
        plain.write_text("#!/bin/sh\n")
        for command, code, reason in (
                ("nosuchprogram", 127, "No such file or directory"), ("./nosuchprogram", 127, "No such file or directory"),
                (plain, 126, "Permission denied"), (self.path, 126, "Permission denied")):
            self.assertEqual(self.weft("exec", "h1", command, "-x"), (
                code, "", f"weft exec: cannot run '{command}' in the network namespace of node 'h1': {reason}\n"))

    def test_exec_in_our_own_namespace_needs_no_right(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root, to give rights up")
        self.give_to_nobody()
        self.assertEqual(self.as_nobody("up", "--detach", self.file).returncode, 0)
        self.addCleanup(self.as_nobody, "down")
        self.assertEqual(self.as_nobody("exec", "h1", "true").returncode, 0)

    def test_a_fabric_inside_unshare_is_reached_from_outside(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root, to give rights up")
        unshare = ["unshare", "-Urn"]
        if subprocess.run(harness.as_user(NOBODY) + unshare + ["true"], capture_output=True).returncode != 0:
            self.skipTest("users may not make namespaces here; needs sysctl kernel.unprivileged_userns_clone=1")
        self.give_to_nobody()
        self.file.write_text(ECHO.replace('os = "gen"', 'os = "gen"\nnetns = "h1"'))
        done = self.as_nobody("up", "--detach", self.file, wrapper=unshare)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.as_nobody, "down")
        self.assertEqual(self.as_nobody("status").returncode, 0)
        done = self.as_nobody("exec", "h1", "ip", "-br", "link")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["lo"], "its own namespace")

    def give_to_nobody(self):
        self.path.chmod(0o755)
        os.chown(self.path, NOBODY, NOBODY)

    def as_nobody(self, *words, wrapper=()):
        command = harness.as_user(NOBODY) + [*wrapper, self.bin / "weft", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, env=self.environment)

    def test_back_off_grows(self):
        """A process that dies at once is not started in a busy loop: 50, 100, 200 ms ... 1 s."""
        process = self.up()
        first = self.record()["h1"]
        (self.bin / "weft-host").unlink()
        (self.bin / "weft-host").symlink_to("/bin/false")
        os.kill(first, signal.SIGKILL)
        lines = [process.stdout.readline() for _ in range(6)]
        waits = [int(match.group(1)) for line in lines for match in [re.search(r"starts again in (\d+) ms", line)] if match]
        self.assertGreaterEqual(len(waits), 5, lines)
        self.assertEqual(waits, sorted(waits))
        self.assertLessEqual(waits[-1], 1000)

    def test_killed_launcher_leaves_nothing(self):
        for _ in range(3):
            process = self.up()
            pids = self.record()
            process.kill()
            process.wait(10)
            self.assert_nothing_left(pids)
        process = self.up()
        process.terminate()
        self.assertEqual(process.wait(10), 0)
        self.assert_clean()

    def test_down_cleans_up_after_a_killed_launcher(self):
        process = self.up()
        pids = self.record()
        process.kill()
        process.wait(10)
        self.assertEqual(self.weft("down")[0], 0)
        self.assert_nothing_left(pids)
        self.assert_clean()

    def test_killed_launcher_and_frozen_child(self):
        """Even a child that cannot see its parent's end is gone after the next start."""
        process = self.up()
        pids = self.record()
        os.kill(pids["h1"], signal.SIGSTOP)
        process.kill()
        process.wait(10)
        self.assertEqual(self.weft("down", "--fabric", "t")[0], 0)
        self.assert_nothing_left(pids)
        self.assert_clean()

    def test_failure_of_a_node_is_the_launchers(self):
        code, _, errors = self.weft("up", self.file, STAND_IN_FAIL="u1")
        self.assertEqual(code, 1)
        self.assertEqual(errors, "weft up: node 'u1' ended with code 1: stand-in: told to fail; see weft logs --fabric t\n")
        self.assertIn("u1 ended with code 1", self.weft("logs", "u1")[1])
        self.assert_clean()

    def test_not_ready_in_time_names_the_cause(self):
        code, _, errors = self.weft("up", "--timeout", "1", self.file, STAND_IN_NEVER_READY="h1")
        self.assertEqual(code, 1)
        self.assertIn("not ready in time: h1: switch refused: version", errors)
        self.assert_clean()

    def test_a_node_that_was_ready_comes_back_while_others_still_start(self):
        """Its death is not the failure of the start, the second time neither."""
        self.environment["STAND_IN_NEVER_READY"] = "h1"
        process = self.start("up", "--timeout", "4", self.file, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in process.stdout:
            if line.startswith("u1 "):
                break
        for _ in range(2):
            before = self.record()["u1"]
            os.kill(before, signal.SIGKILL)
            harness.wait_for(lambda: self.record()["u1"] not in (0, before), "u1 is back", 3.0)
        errors = process.communicate(timeout=20)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn("not ready in time: h1: switch refused: version", errors)

    def test_detached_failure_is_told_too(self):
        code, _, errors = self.weft("up", "--detach", self.file, STAND_IN_FAIL="s1")
        self.assertEqual(code, 1)
        self.assertIn("told to fail", errors)

    def test_bad_input(self):
        fifo = self.path / "fifo"
        os.mkfifo(fifo)
        table = [
            (["up", "/nonexistent.toml"], 2, "cannot read /nonexistent.toml: No such file or directory"),
            (["up", "--check", self.path], 2, f"cannot read {self.path}: it is a directory, not a file"),
            (["up", "--check", "/dev/null"], 2, "cannot read /dev/null: it is a device, not a file"),
            (["up", "--check", fifo], 2, f"cannot read {fifo}: it is a FIFO, not a file"),
            (["status", "--config", self.path], 2, f"--config: cannot read {self.path}: it is a directory"),
            (["up"], 2, "FILE is missing"),
            (["up", "--nonsense", "x"], 2, "unknown option '--nonsense'"),
            (["up", "--quite", "x"], 2, "did you mean '--quiet'?"),
            (["up", "--log-level", "loud", self.file], 2, "--log-level is debug, info, warn or error, not 'loud'"),
            (["dwn"], 2, "unknown command 'dwn'; did you mean 'down'?"),
            (["--versoin"], 2, "unknown option '--versoin'; did you mean '--version'?"),
            (["help", "dwn"], 2, "unknown command 'dwn'"),
            ([], 2, "a command is missing"),
            (["down"], 0, "no fabric is running"),
            (["down", "--fabric", ".."], 1, "'..' is not the name of a fabric"),
            (["logs"], 1, "no fabric has run here"),
            (["logs", "--fabric", "none"], 1, "no fabric 'none' has run here"),
            (["traffic", "--size", "5"], 2, "--size needs a frame length from 60 to 9018"),
            (["traffic", "--rate", "-1"], 2, "--rate needs a whole number"),
            (["capture"], 2, "NODE is missing"),
            (["exec"], 2, "NODE or COMMAND is missing"),
            (["exec", "h1"], 2, "NODE or COMMAND is missing"),
            (["exec", "h1", "ls", "-l"], 1, "no fabric is running"),
            (["fault", "script", "/nonexistent.toml"], 2, "cannot read /nonexistent.toml: No such file or directory"),
            (["keygen", "../x"], 2, "is not a node name"),
            (["demo", "--link", "rope"], 2, "auto, shm or zmq"),
        ]
        for words, expected, says in table:
            with self.subTest(words=words):
                code, _, errors = self.weft(*words)
                self.assertEqual(code, expected, errors)
                self.assertIn(says, errors)
                self.assertEqual(len(errors.strip().splitlines()), 1, errors)
        for words in ([], ["up"], ["down"], ["status"], ["stat"], ["logs"], ["exec"], ["traffic"], ["capture"], ["demo"],
                      ["keygen"]):
            code, text, _ = self.weft(*words, "--help")
            self.assertEqual(code, 0)
            self.assertIn("usage: weft", text)
            self.assertEqual(self.weft("help", *words)[1], text)

    def test_topology_mistakes_have_line_and_column(self):
        self.file.write_text(ECHO + '[[host]]\nname = "h2"\nswitch = "s9"\n')
        code, _, errors = self.weft("up", "--check", self.file)
        self.assertEqual(code, 1)
        self.assertIn("t.toml:11:10: there is no switch 's9'; did you mean 's1'?", errors)
        self.file.write_text(ECHO)
        code, text, _ = self.weft("up", "--check", self.file)
        self.assertEqual((code, text), (0, f"{self.file}: fabric 't', 1 switch, 1 host, 1 unit: good\n"))
        self.file.write_text("")
        code, _, errors = self.weft("up", "--check", self.file)
        self.assertEqual(code, 1)
        self.assertIn("t.toml:1:1: the file needs 'fabric'", errors)
        self.assertFalse(self.state.exists(), "a check touches nothing")

    def test_nodes_keep_their_lids(self):
        self.up().terminate()
        self.file.write_text(ECHO.replace('[[host]]\nname = "h1"', '[[host]]\nname = "h0"\nos = "gen"\n[[host]]\nname = "h1"'))
        harness.wait_for(lambda: self.weft("up", "--detach", self.file)[0] == 0, "the new fabric is up")
        lids = dict(reversed(line.split()[1:]) for line in (self.state / "t" / "lids").read_text().splitlines())
        self.assertEqual(lids, {"h1": "1", "u1": "2", "h0": "3"})
        self.assertEqual(self.weft("down")[0], 0)

    def test_keys_are_private_and_kept(self):
        keys = self.path / "keys"
        self.assertEqual(self.weft("keygen", "--dir", keys, "s1", "h1")[0], 0)
        self.assertEqual(oct((keys / "s1.secret").stat().st_mode & 0o777), "0o600")
        self.assertEqual(len((keys / "s1.public").read_text().strip()), 40)
        code, _, errors = self.weft("keygen", "--dir", keys, "s1")
        self.assertEqual(code, 1)
        self.assertIn("--force", errors)
        self.assertEqual(self.weft("keygen", "--dir", keys, "s1", "u1")[0], 1)
        self.assertTrue((keys / "u1.secret").exists(), "a key that exists keeps no other name from getting one")
        self.assertEqual(self.weft("keygen", "--dir", keys, "--force", "s1")[0], 0)

    def test_tcp_without_keys_is_refused(self):
        self.file.write_text(ECHO + 'link = "zmq"\nendpoint = "tcp://192.0.2.1:7000"\n')
        code, _, errors = self.weft("up", self.file)
        self.assertEqual(code, 1)
        self.assertIn("make keys with `weft keygen`", errors)
        self.file.write_text(ECHO + 'link = "zmq"\nendpoint = "tcp://192.0.2.1:7000"\n[curve]\nkeys = "keys"\n')
        refusal = r"no keys of s1, u1 in .*/keys; make them with weft keygen --dir .*/keys s1 u1"
        for words in (["up"], ["up", "--check"]):
            code, _, errors = self.weft(*words, self.file)
            self.assertEqual(code, 1)
            self.assertRegex(errors, refusal + "$")
        code, text, _ = self.weft("up", "--check", "--json", self.file)
        answer = json.loads(text)
        self.assertEqual((code, answer["good"]), (1, False))
        self.assertRegex(answer["error"], refusal)

    def test_keys_for_a_switch_that_no_node_joins_over_tcp(self):
        """Programs of other machines may join it later; until then its list of keys is empty."""
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.assertEqual(self.weft("keygen", "--dir", self.path / "keys", "s1")[0], 0)
        self.file.write_text(ECHO.replace('[[switch]]\nname = "s1"\n',
                                          f'[curve]\nkeys = "keys"\n[[switch]]\nname = "s1"\nlisten = ["{endpoint}"]\n'))
        self.bin = harness.BIN  # the real switch reads the list
        self.assertEqual(self.weft("up", "--check", self.file)[0], 0)
        code, _, errors = self.weft("up", "--detach", self.file)
        self.addCleanup(self.weft, "down")
        self.assertEqual((code, errors), (0, ""))

    def test_a_hangup_ends_a_fabric_with_a_terminal_alone(self):
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.addCleanup(self.weft, "down")
        before = self.record()
        os.kill(before[""], signal.SIGHUP)
        os.kill(before["h1"], signal.SIGKILL)
        harness.wait_for(lambda: self.record()["h1"] not in (0, before["h1"]), "the launcher goes on")
        self.assertEqual(self.record()[""], before[""])
        self.assertEqual(self.weft("down")[0], 0)
        process = self.up()
        os.kill(self.record()[""], signal.SIGHUP)
        self.assertEqual(process.wait(10), 0)

    def test_state_directory_of_somebody_else_is_refused(self):
        self.state.mkdir(mode=0o755)
        os.chmod(self.state, 0o755)
        code, _, errors = self.weft("up", self.file)
        self.assertEqual(code, 1)
        self.assertIn("mode 0700", errors)
        code, _, errors = self.weft("up", self.file, WEFT_STATE_DIR=str(self.path / ("x" * 80)))
        self.assertEqual(code, 1)
        self.assertIn("set WEFT_STATE_DIR to a shorter one", errors)

    def test_interfaces_outlive_hosts_and_not_the_launcher(self):
        netns.require_root()
        self.file.write_text(TAP)
        process = self.up()
        pids = self.record()

        def interface():
            code, text, _ = self.weft("exec", "u1", "--", "true")
            self.assertEqual(code, 0)
            code, text, errors = self.weft("exec", "h1", "--", "ip", "-json", "addr", "show", "dev", "eth0")
            self.assertEqual(code, 0, errors)
            return json.loads(text)[0]
        before = interface()
        self.assertEqual((before["mtu"], before["address"]), (4000, "02:00:00:00:01:02"))
        code, text, _ = self.weft("exec", "h1", "--", "ip", "link", "show", "dev", "eth0")
        self.assertIn("alias weft:t", text)
        addresses = {entry["local"] for entry in before["addr_info"]}
        self.assertLessEqual({"10.9.1.1", "fd09::1"}, addresses)
        os.kill(pids["h1"], signal.SIGKILL)
        harness.wait_for(lambda: self.record()["h1"] not in (0, pids["h1"]), "h1 is back", 3.0)
        self.assertEqual(interface()["ifindex"], before["ifindex"])
        pids = self.record()
        process.kill()
        process.wait(10)
        self.assert_nothing_left(pids)
        self.assertEqual(self.weft("down", "--fabric", "t")[0], 0)

    def test_busy_interface_is_named(self):
        netns.require_root()
        with netns.Namespace("busy") as busy:
            busy.add_tap("eth0")
            self.file.write_text(TAP.replace('netns = "h1"', f'netns = "{busy.name}"'))
            code, _, errors = self.weft("up", self.file)
            self.assertEqual(code, 1)
            self.assertIn("interface eth0 exists already", errors)
            self.assertIsNotNone(busy.interface("eth0"), "what is not ours is left alone")
            self.file.write_text(TAP.replace('nic = "tap"', 'nic = "packet"').replace('addresses = ["10.9.1.254/24"]\n', "")
                                 .replace('interface = "lan0"', 'interface = "none0"'))
            code, _, errors = self.weft("up", self.file)
            self.assertEqual(code, 1)
            self.assertIn("there is no interface none0", errors)

    def test_missing_permission_says_what_works_without(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root, to give rights up")
        self.give_to_nobody()
        self.file.write_text(TAP.replace('netns = "h1"\n', "").replace('netns = "lan"\n', ""))
        done = self.as_nobody("up", self.file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("CAP_NET_ADMIN", done.stderr)
        self.assertIn("work without", done.stderr)


if __name__ == "__main__":
    unittest.main()
