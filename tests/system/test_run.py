"""weft run: plain programs, as any user, on a fabric that comes with the first and goes with the last."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from weft_case import ECHO, WeftCase


def has_library():
    return (harness.BIN.parent / "lib" / "weft" / "verbs" / "libibverbs.so.1").exists()


def listens(port):
    """Does somebody take TCP connections there?"""
    tables = [pathlib.Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in lines)


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
class RunTest(WeftCase):
    def run_program(self, *words, **extra):
        return self.weft("run", "--", *words, **extra)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.wait_for_the_end, "mine")
        self.addCleanup(self.wait_for_the_end)

    def running(self, fabric="default"):
        return self.weft("status", "--fabric", fabric, "--json")[0] == 0

    def wait_for_the_end(self, fabric="default"):
        harness.wait_for(lambda: not self.running(fabric), "the fabric to end with its last program")

    def test_exit_codes_and_signals_are_the_programs_own(self):
        self.assertEqual(self.run_program("true")[0], 0)
        self.assertEqual(self.run_program("false")[0], 1)
        self.assertEqual(self.run_program("sh", "-c", "exit 42")[0], 42)
        self.assertEqual(self.run_program("sh", "-c", "kill -TERM $$")[0], -signal.SIGTERM)
        self.assertEqual(self.run_program("sh", "-c", "kill -KILL $$")[0], -signal.SIGKILL)
        code, out, err = self.run_program("sh", "-c", "echo out; echo err >&2; cat", "-x", "--", "y")
        self.assertEqual((code, out, err), (0, "out\n", "err\n"))
        self.assertEqual(self.run_program("/no/such/program")[0], 127)
        self.assertEqual(self.run_program("no-such-program")[0], 127)
        self.assertEqual(self.run_program(self.path)[0], 126)
        self.wait_for_the_end()

    def test_a_program_that_does_not_touch_rdma_has_one_object_and_one_descriptor_more(self):
        """The descriptor tells the launcher of the fabric that the program lives. Nothing joins, no thread starts. The maps are those of
        a `cat` that has called close() before."""
        look = ("ls /proc/self/fd | wc -l; ls /proc/self/task | wc -l;"
                " cat /dev/null /proc/self/maps | sed -n 's/.* \\(\\/.*\\.so[^ ]*\\).*/\\1/p' | sort -u")
        bare = subprocess.run(["sh", "-c", look], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True).stdout.split()
        code, out, _ = self.run_program("sh", "-c", look)
        under = out.split()
        self.assertEqual(code, 0)
        self.assertEqual(int(under[0]), int(bare[0]) + 1)
        self.assertEqual(under[1], bare[1])
        self.assertEqual([pathlib.Path(path).name for path in set(under[2:]) - set(bare[2:])], ["libweft_preload.so"])
        self.assertEqual(set(bare[2:]) - set(under[2:]), set())

    def test_a_compile_a_shell_and_git_do_what_they_do_without(self):
        work = {"shell": "i=0; while [ $i -lt 50 ]; do /bin/echo $i | cat; i=$((i+1)); done; exit 3",
                "git": "git init -q w && cd w && echo x >f && git add f && git -c user.name=w -c user.email=w@x commit -qm m"
                       " && git log --format=%s --stat && git status --short --branch",
                "compile": "printf 'int main(void) { return 7; }' >m.c && cc -O2 -o m m.c && ./m"}
        for what, line in work.items():
            if what != "shell" and not shutil.which({"git": "git", "compile": "cc"}[what]):
                continue
            seen = []
            for prefix in ([], [self.bin / "weft", "run", "--"]):
                place = self.path / f"{what}{len(prefix)}"
                place.mkdir()
                done = subprocess.run([*prefix, "sh", "-c", line], cwd=place, env=self.environment, capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=60)
                seen.append((done.returncode, done.stdout, done.stderr))
            with self.subTest(work=what):
                self.assertEqual(*seen)

    def test_options_of_the_program_are_its_own(self):
        code, out, _ = self.weft("run", "echo", "--fabric", "-n", "x")
        self.assertEqual((code, out), (0, "--fabric -n x\n"))

    def test_programs_share_a_fabric_that_ends_with_the_last(self):
        self.assertFalse(self.running())
        first = self.start("run", "sleep", "100")
        harness.wait_for(self.running, "a fabric")
        pid = json.loads(self.weft("status", "--json")[1])["launcher"]
        second = self.start("run", "sh", "-c", "sleep 100 & exec sleep 100")
        self.assertEqual(self.run_program("true")[0], 0)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        time.sleep(2.5)
        self.assertTrue(self.running(), "the second still uses it")
        self.assertEqual(json.loads(self.weft("status", "--json")[1])["launcher"], pid)
        child = int(subprocess.run(["pgrep", "-P", str(second.pid)], capture_output=True, text=True).stdout)
        os.kill(second.pid, signal.SIGKILL)
        second.wait()
        time.sleep(2.5)
        self.assertTrue(self.running(), "and a child of it")
        os.kill(child, signal.SIGKILL)
        self.wait_for_the_end()
        self.assertFalse(list((self.state / "default").glob("*.sock")))

    def test_many_that_start_at_once_start_it_once(self):
        together = [self.start("run", "sh", "-c", "sleep 1; echo $WEFT_FABRIC", stdout=subprocess.PIPE) for _ in range(12)]
        endpoints = {process.communicate(timeout=60)[0] for process in together}
        self.assertEqual([process.returncode for process in together], [0] * 12)
        self.assertEqual(endpoints, {f"shm:{self.state}/default/s1.sock\n"})
        self.wait_for_the_end()

    def test_one_that_comes_while_it_ends_gets_the_next(self):
        for pause in (0.9, 0.95, 1.0, 1.05, 1.1, 1.2):
            self.assertEqual(self.run_program("true")[0], 0)
            time.sleep(pause)
        self.wait_for_the_end()

    def test_a_launcher_that_was_killed_is_replaced(self):
        self.assertEqual(self.run_program("true")[0], 0)
        os.kill(json.loads(self.weft("status", "--json")[1])["launcher"], signal.SIGKILL)
        self.assertEqual(self.run_program("true")[0], 0)
        self.wait_for_the_end()

    def test_a_name_keeps_its_lid_and_guid(self):
        show = ["sh", "-c", "echo $WEFT_NODE $WEFT_GUID $WEFT_LID $WEFT_IDENTITY"]
        first = self.weft("run", "--node", "alice", *show)[1].split()
        other = self.weft("run", "--node", "bob", *show)[1].split()
        self.wait_for_the_end()
        self.assertEqual(self.weft("run", "--node", "alice", *show)[1].split(), first)
        self.assertEqual(first[0], "alice")
        self.assertEqual(len(set(first[1:]) & set(other[1:])), 0)
        self.assertEqual(self.weft("run", *show)[1], "\n", "and who has no name is nobody")
        self.assertEqual(self.weft("run", "--node", "alice", self.bin / "weft", "run", *show)[1], "\n")

    def test_an_inner_run_uses_the_outer_fabric(self):
        self.file.write_text('fabric = "mine"\n[[switch]]\nname = "sw"\nspare_ports = 2\n')
        inner = [self.bin / "weft", "run", "sh", "-c", "echo $WEFT_FABRIC"]
        self.assertEqual(self.weft("run", "--fabric", self.file, *inner)[1], f"shm:{self.state}/mine/sw.sock\n")
        self.assertFalse(self.running(), "no default fabric was started")
        code, _, err = self.weft("run", "--fabric", "nobodys", "true")
        self.assertEqual(code, 125)
        self.assertIn("nobodys", err)

    def test_a_program_joins_the_switch_with_most_free_ports(self):
        switches = "".join(f'[[switch]]\nname = "{name}"\nspare_ports = {ports}\n' for name, ports in (("a", 2), ("b", 5), ("c", 3)))
        links = '[[link]]\nswitches = ["a", "b"]\n[[link]]\nswitches = ["b", "c"]\n'
        self.file.write_text('fabric = "mine"\n' + switches + links)
        code, out, err = self.weft("run", "--fabric", self.file, "sh", "-c", "echo $WEFT_FABRIC")
        self.assertEqual((code, out), (0, f"shm:{self.state}/mine/b.sock\n"), err)

    def test_a_fabric_without_spare_ports_is_refused_by_name(self):
        self.up()
        code, _, err = self.weft("run", "--fabric", "t", "true")
        self.assertEqual(code, 125)
        self.assertIn("spare_ports", err)

    def test_a_directory_of_somebody_else_is_refused(self):
        self.state.mkdir(mode=0o755)
        code, _, err = self.run_program("true")
        self.assertEqual(code, 125)
        self.assertIn("mode 0700", err)

    def test_a_static_program_runs_and_is_told_of(self):
        source = self.path / "static.c"
        source.write_text("int main(void) { return 5; }\n")
        program = self.path / "static"
        if subprocess.run(["cc", "-static", "-o", program, source], capture_output=True).returncode != 0:
            self.skipTest("no static libc here")
        code, _, err = self.run_program(program)
        self.assertEqual(code, 5)
        self.assertIn("is statically linked", err)
        script = self.path / "script"
        script.write_text(f"#!{program}\n")
        script.chmod(0o755)
        code, _, err = self.run_program(script)
        self.assertEqual(code, 5)
        self.assertIn(f"is statically linked (its interpreter {program})", err)

    def test_doctor_names_what_is_in_the_way(self):
        findings = json.loads(self.weft("doctor", "--json")[1])["findings"]
        self.assertTrue({"programs", "state directory", "shared memory", "descriptors", "threads", "memory windows"}
                        <= {one["what"] for one in findings if one["good"]})
        other = self.path / "lib"
        other.mkdir()
        (other / "libibverbs.so.1").touch()
        code, out, _ = self.weft("doctor", LD_LIBRARY_PATH=str(other))
        self.assertEqual(code, 1)
        self.assertIn(f"LD_LIBRARY_PATH names {other}", out)
        self.state.mkdir(mode=0o777)
        self.state.chmod(0o777)
        self.assertIn("chmod 700", self.weft("doctor")[1])

    def bad(self, *before, **extra):
        """What the doctor finds wrong, by name; `before`: what goes in front of the command."""
        done = subprocess.run([*map(str, before), str(self.bin / "weft"), "doctor", "--json"], capture_output=True, text=True,
                              env=dict(self.environment, **extra), timeout=60)
        findings = json.loads(done.stdout)["findings"]
        self.assertEqual(done.returncode, 0 if all(one["good"] for one in findings) else 1)
        return {one["what"]: one["text"] for one in findings if not one["good"]}

    def test_doctor_says_of_each_thing_how_to_mend_it(self):
        verbs = self.bin.parent / "lib" / "weft" / "verbs"
        preload = self.bin.parent / "lib" / "weft" / "libweft_preload.so"
        alone = self.path / "alone" / "bin"
        alone.mkdir(parents=True)
        shutil.copy(self.bin / "weft", alone)
        moved = subprocess.run([alone / "weft", "doctor"], capture_output=True, text=True,
                               env=dict(self.environment, PATH="/usr/bin:/bin")).stdout
        self.assertRegex(moved, r"BAD +programs +weft-switch is neither .*; build or install it")
        self.assertRegex(moved, r"BAD +libraries +.*: build it .* or install Weft")
        cases = [("descriptors", "raise ulimit -Hn", ["prlimit", "--nofile=200:200"], {}),
                 ("cores", "taskset", ["taskset", "-c", "0"], {}),
                 ("other libibverbs", "unset it", [], {"RDMAV_DRIVERS": "mlx5"}),
                 ("other libibverbs", "unset it", [], {"LD_PRELOAD": "/nowhere/libibverbs.so.1"}),
                 ("environment", f"lacks {verbs}", [], {"WEFT_FABRIC": "mine"}),
                 ("state directory", "set WEFT_STATE_DIR", [], {"WEFT_STATE_DIR": str(self.file / "x")})]
        if preload.exists():
            ours = {"WEFT_FABRIC": f"shm:{self.path}/none.sock", "LD_LIBRARY_PATH": str(verbs)}
            cases += [("environment", f"lacks {preload}", [], ours),
                      ("environment", "where no switch is; start", [], dict(ours, LD_PRELOAD=str(preload))),
                      ("environment", "where no switch is; start", [], dict(ours, LD_PRELOAD=f"/nowhere/a.so {preload}")),
                      ("environment", "where no switch is; start", [], dict(ours, LD_PRELOAD=f"{preload}:/nowhere/a.so"))]
        for what, hint, before, extra in cases:
            with self.subTest(what=what, hint=hint):
                self.assertIn(hint, self.bad(*before, **extra).get(what, "nothing found"))

    def test_a_daemon_that_closes_all_descriptors_still_counts(self):
        """While it is there, and no longer: not even when nobody can be asked any more."""
        if shutil.which("ibv_asyncwatch") is None:
            self.skipTest("ibverbs-utils is not installed")
        closing = 'for fd in $(ls /proc/$$/fd); do [ $fd -le 2 ] || eval "exec $fd>&-"; done; exec ibv_asyncwatch -d weft0'
        guest = self.start("run", "bash", "-c", closing, stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: "guid" in self.weft("devices")[1], "the program to join")
        self.assertFalse([fd for fd in pathlib.Path(f"/proc/{guest.pid}/fd").iterdir() if str(fd.readlink()).endswith("/users")])
        launcher = json.loads(self.weft("status", "--json")[1])["launcher"]
        time.sleep(3.0)
        self.assertTrue(self.running(), "it is still there")
        shutil.rmtree(self.state / "default")
        guest.kill()
        harness.wait_for(lambda: not pathlib.Path(f"/proc/{launcher}").exists(), "the launcher to end")

    def test_a_name_is_one_endnode_at_a_time(self):
        if shutil.which("ibv_devinfo") is None:
            self.skipTest("ibverbs-utils is not installed")
        show = ["ibv_devinfo", "-d", "weft0"]
        seen = [re.findall(r"(?:node_guid|port_lid):\s+(\S+)", self.weft("run", "--node", name, *show)[1])
                for name in ("alice", "bob", "alice")]
        self.assertEqual(seen[0], seen[2])
        self.assertEqual(len(set(seen[0]) & set(seen[1])), 0)
        self.assertEqual(len(seen[0]), 2)

    def test_stock_programs_talk(self):
        """They come and go: the last message of one that ends at once still arrives."""
        if shutil.which("ibv_ud_pingpong") is None:
            self.skipTest("ibverbs-utils is not installed")
        for program, port in (("ibv_rc_pingpong", 21000), ("ibv_ud_pingpong", 22000)):
            for i in range(3):
                words = [program, "-p", str(port + os.getpid() % 1000 + i), "-n", "100"]
                server = self.start("run", "--node", "server", *words, stdout=subprocess.PIPE)
                harness.wait_for(lambda number=int(words[2]): listens(number), f"{program} to listen")
                code, out, err = self.weft("run", *words, "127.0.0.1")
                self.assertEqual((code, server.wait(timeout=30)), (0, 0), f"{program}: {out}{err}")
                self.assertIn("100 iters", out)

    def test_connections_by_address(self):
        if shutil.which("rping") is None or not (harness.BIN.parent / "lib/weft/libweft_preload.so").exists():
            self.skipTest("rdmacm-utils is not installed")
        port = 23000 + os.getpid() % 1000
        server = self.start("run", "rping", "-s", "-C", "10", "-V", "-p", port, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        harness.wait_for(lambda: "guid" in self.weft("devices")[1], "the server to join")
        time.sleep(1.0)  # and to listen, which nobody outside sees
        code, out, err = self.weft("run", "rping", "-c", "-C", "10", "-V", "-a", "127.0.0.1", "-p", port)
        said = server.communicate(timeout=30)[1]
        self.assertEqual(code, 0, out + err + said)
        # rping ends its channel of events while its own thread may be about to read the next one: all pings have come by then.
        if server.returncode != 0:
            self.assertIn("rdma_get_cm_event: Bad file descriptor", said)

    def test_a_program_joins_the_fabric_that_runs(self):
        """What `weft up` started is what the next `weft run` and every command after it talk to, beside a fabric of `weft run` too."""
        self.file.write_text(ECHO.replace('name = "s1"\n', 'name = "s1"\nspare_ports = 4\n'))
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.addCleanup(self.weft, "down", "--fabric", "t")
        show = ["run", "--", "sh", "-c", "echo $WEFT_FABRIC"]
        self.assertIn("/t/", self.weft(*show)[1])
        self.assertFalse(self.running(), "a second fabric was started")
        holder = self.start("run", "--fabric", "default", "sleep", "100")
        harness.wait_for(self.running, "the default fabric")
        self.assertIn("/t/", self.weft(*show)[1])
        self.assertEqual(json.loads(self.weft("status", "--json")[1])["fabric"], "t")
        self.assertEqual(self.weft("down")[0], 0)
        self.assertFalse(self.running("t"))
        self.assertIn("/default/", self.weft(*show)[1])
        self.assertIn("fabric default (built in), launcher", self.weft("status")[1])
        holder.kill()

    def test_of_several_fabrics_that_stay_none_is_joined_by_chance(self):
        for name in ("one", "two"):
            file = self.path / f"{name}.toml"
            file.write_text(f'fabric = "{name}"\n[[switch]]\nname = "s1"\nspare_ports = 2\n')
            self.assertEqual(self.weft("up", "--detach", file)[0], 0)
            self.addCleanup(self.weft, "down", "--fabric", name)
        code, _, err = self.weft("run", "true")
        self.assertEqual(code, 125)
        self.assertIn("there are several fabrics; choose with --fabric: one, two", err)
        self.assertFalse(self.running(), "a third one was started")
        self.assertEqual(self.weft("run", "--fabric", "two", "true")[0], 0)

    def test_a_wrong_variable_is_named_with_the_right_form(self):
        if shutil.which("ibv_devinfo") is None:
            self.skipTest("ibverbs-utils is not installed")
        keys = "needs keys: set WEFT_CURVE_SECRET and WEFT_CURVE_SERVER, or use weft run --key FILE --switch-key FILE"
        for words, why in ((["WEFT_IP=x"], "WEFT_IP=x: must be addresses like 10.0.0.7 or fd00::7, separated by commas, not 'x'"),
                           (["WEFT_IP=10.87.0.9"], "WEFT_IP=10.87.0.9: 10.87.0.9 cannot be chosen"),
                           (["WEFT_FABRIC=tcp://192.0.2.1:7"], f"WEFT_FABRIC=tcp://192.0.2.1:7 leaves this machine and {keys}"),
                           (["WEFT_CURVE_SECRET=x"], "WEFT_CURVE_SECRET and WEFT_CURVE_SERVER must be set together")):
            with self.subTest(words=words):
                code, _, err = self.weft("run", "env", *words, "WEFT_DEBUG=verbs", "ibv_devinfo")
                self.assertNotEqual(code, 0)
                self.assertIn(why, err)

    def test_a_name_may_be_as_long_as_that_of_a_program(self):
        show = ["sh", "-c", "echo $WEFT_NODE"]
        self.assertEqual(self.weft("run", "--node", "n" * 64, *show)[1].strip(), "n" * 64)
        code, _, err = self.weft("run", "--node", "n" * 65, *show)
        self.assertEqual(code, 125)
        self.assertIn("use 1 to 64 letters", err)

    def test_a_path_that_no_loader_takes_is_told(self):
        """LD_PRELOAD is cut at spaces: programs would run without the preloaded object, and find no device."""
        place = self.path / "my projects"
        shutil.copytree(harness.BIN.parent / "lib" / "weft", place / "lib" / "weft", symlinks=True)
        (place / "bin").mkdir()
        shutil.copy(harness.BIN / "weft", place / "bin")
        done = subprocess.run([place / "bin" / "weft", "run", "--", "true"], capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"takes no libraries from a path with a space, ':' or ';': move or install Weft, which is in {place}", done.stderr)

    def test_a_client_waits_for_its_server(self):
        if shutil.which("ibv_rc_pingpong") is None:
            self.skipTest("ibverbs-utils is not installed")
        port = str(24000 + os.getpid() % 1000)
        late = self.start("run", "sh", "-c", f"sleep 0.5; exec ibv_rc_pingpong -n 100 -p {port}", stdout=subprocess.DEVNULL)
        code, out, err = self.weft("run", "--wait-listen", port, "--", "ibv_rc_pingpong", "-n", "100", "-p", port, "127.0.0.1")
        self.assertEqual((code, late.wait(timeout=30)), (0, 0), out + err)

    def test_devices_lists_who_is_there(self):
        holder = self.start("run", "sleep", "100")
        harness.wait_for(self.running, "a fabric")
        switches = json.loads(self.weft("devices", "--json")[1])["switches"]
        self.assertEqual(switches, [{"switch": "s1", "spare_ports": 254, "free": 254, "devices": []}])
        self.assertIn("254 of 254 spare ports are free", self.weft("devices")[1])
        holder.kill()


if __name__ == "__main__":
    unittest.main()
