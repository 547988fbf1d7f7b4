"""What operators look at: weft stat, status, devices and logs for many programs, small windows, scripts, and programs that have
ended. docs/counters.md and docs/json.md promise it."""
import fcntl
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

import harness
from test_programs import ProgramCase
from weft_case import ECHO, SOURCE, WeftCase

COUNTERS = SOURCE / "docs" / "counters.md"
SECTION = re.compile(r"^## [^\n]*\n\n([^\n]*)\n((?:\n\| Name [^\n]*\n\|[-|]*\n(?:\|[^\n]*\n)*)?)", re.M)


def documented():
    """Patterns of every counter that the page describes, without the node."""
    patterns, queue_pair = [], []
    for place, table in SECTION.findall(COUNTERS.read_text()):
        names = re.findall(r"^\| `(\w+)` \|", table, re.M)
        if "`QpCounter`" in place:
            names = queue_pair = names or queue_pair
        begins = re.findall(r"`([\w.]+\.)`", place.partition("Names begin with")[2]) or [""]
        for begin in begins:
            stem = re.escape(begin).replace("LID", r"\d+").replace(r"N\.", r"\d+\.")
            patterns.append(f"{stem}(?:{'|'.join(names)})")
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


class StatTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.up()

    def test_every_counter_of_a_fabric_is_described(self):
        counters = json.loads(self.weft("stat", "--json", "--interval", "100")[1])["counters"]
        self.assertGreater(len(counters), 300)
        known = documented()
        unknown = {name for name in counters if not known.fullmatch(name.partition(".")[2])}
        self.assertEqual(unknown, set())

    def test_states_are_words(self):
        said = json.loads(self.weft("stat", "--json", "--interval", "600")[1])
        self.assertEqual(said["states"]["h1.unit.2.session.now.state"], "open")
        self.assertEqual(said["states"]["h1.link.up"], "yes")
        self.assertTrue(set(said["states"]) <= set(said["counters"]))
        self.assertTrue(all(isinstance(value, int) for value in said["counters"].values()))
        self.assertRegex(self.weft("stat", "h1", "--interval", "100")[1], r"h1\.unit\.2\.session\.now\.state +open\n")

    def screens(self, rows, columns, *words, count=3):
        """What `weft stat --watch` draws on a terminal of that size."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = self.start("stat", "--watch", "--interval", "200", *words, stdout=theirs, stdin=subprocess.DEVNULL)
        os.close(theirs)
        text, end = "", time.monotonic() + 20
        while text.count("\x1b[H") <= count and time.monotonic() < end:
            if select.select([ours], [], [], 0.5)[0]:
                text += os.read(ours, 65536).decode()
        process.send_signal(signal.SIGINT)
        process.wait(10)
        drawn = text.split("\x1b[H")[1:-1]
        self.assertGreaterEqual(len(drawn), count)
        return [re.sub(r"\x1b\[[KJ]", "", screen).replace("\r\n", "\n").splitlines() for screen in drawn]

    def test_watching_fits_the_window_and_does_not_scroll(self):
        self.start("traffic", "h1", "--duration", "40", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for rows, columns in itertools.product((5, 12, 24), (40, 60, 79, 80, 200)):
            with self.subTest(rows=rows, columns=columns):
                for screen in self.screens(rows, columns, count=2):
                    self.assertLess(len(screen), rows)
                    self.assertLessEqual(max(map(len, screen)), columns)
                    self.assertTrue(screen[0].startswith("fabric t, every 200 ms"[:columns - 2]), screen[0])
                    header = next((line for line in screen if line.startswith("counter")), "")
                    self.assertTrue(header.endswith("per second"), screen)
                    self.assertEqual(len(header), columns, "the columns fill the window")
        rates = [line.split()[-2:] for line in self.screens(40, 100)[-1] if re.search(r" [kM]?B?/s$", line)]
        self.assertGreater(len(rates), 5)

    def test_prometheus_takes_the_counters(self):
        """As the collector of text files reads them: each sample once, behind the type of its metric."""
        code, text, err = self.weft("stat", "--prometheus")
        self.assertEqual((code, err), (0, ""))
        types, samples = {}, {}
        for line in text.splitlines():
            if match := re.fullmatch(r"# TYPE (weft_\w+) (counter|gauge)", line):
                metric = match.group(1)
                self.assertNotIn(metric, types, "lines of one metric are together")
                types[metric] = match.group(2)
                continue
            name, node, place, value = re.fullmatch(r'(\w+)\{node="([^"]*)",place="([^"]*)"\} (\d+)', line).groups()
            self.assertEqual(name, metric)
            self.assertEqual(name.endswith("_total"), types[name] == "counter")
            self.assertNotIn((name, node, place), samples)
            samples[name, node, place] = int(value)
        self.assertEqual({node for _, node, _ in samples}, {"s1", "h1", "u1"})
        self.assertGreater(samples["weft_cells_sent_total", "h1", "link"], 0)
        self.assertEqual(samples["weft_up", "h1", "link"], 1)
        counters = json.loads(self.weft("stat", "--json", "--interval", "100")[1])["counters"]
        missing = {name.rpartition(".")[2] for name in counters} - {name[5:].removesuffix("_total") for name in types}
        numbers = set(re.findall(r"^\| `(\w+)` \| number", COUNTERS.read_text(), re.M))
        self.assertLessEqual(missing, numbers, "what identifies is no measure")
        self.assertEqual({node for line in self.weft("stat", "--prometheus", "h1")[1].splitlines() if not line.startswith("#")
                          for node in re.findall(r'node="(.*?)"', line)}, {"h1"})
        for other in ("--json", "--watch"):
            self.assertEqual(self.weft("stat", "--prometheus", other)[0], 2)

    def test_the_parser_of_prometheus_takes_the_counters(self):
        """With its own Python library (the Debian package, so Debian's Python): same metrics, types and samples as ours."""
        text = self.weft("stat", "--prometheus")[1]
        count = """if True:
            import sys
            from prometheus_client.parser import text_string_to_metric_families
            families = list(text_string_to_metric_families(sys.stdin.read()))
            print(len(families), sum(len(family.samples) for family in families), *sorted({family.type for family in families}))"""
        done = subprocess.run(["/usr/bin/python3", "-c", count], input=text, capture_output=True, text=True, timeout=60)
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(done.stdout.split(), [str(text.count("# TYPE ")), str(len(samples)), "counter", "gauge"], done.stderr)

    def test_json_of_other_commands(self):
        check = json.loads(self.weft("up", "--check", "--json", self.file)[1])
        self.assertEqual(check, {"file": str(self.file), "good": True, "fabric": "t", "switches": 1, "hosts": 1, "units": 1})
        bad = self.path / "bad.toml"
        bad.write_text(ECHO.replace("[[unit]]", "[[units]]"))
        code, out, _ = self.weft("up", "--check", "--json", bad)
        self.assertEqual((code, json.loads(out)["good"]), (1, False))
        self.assertIn("did you mean 'unit'?", json.loads(out)["error"])
        self.assertEqual(self.weft("up", "--json", self.file)[0], 2)
        lines = [json.loads(line) for line in self.weft("logs", "--json")[1].splitlines()]
        self.assertEqual({"time_us", "node", "text"}, set(lines[0]))
        self.assertEqual([line["time_us"] for line in lines], sorted(line["time_us"] for line in lines))
        self.assertIn("h1", {line["node"] for line in lines})


class ProgramStatTest(ProgramCase):
    def watcher(self, *options, **extra):
        """A program that joins and waits."""
        return self.start("run", *options, "ibv_asyncwatch", "-d", "weft0", stdout=subprocess.DEVNULL, **extra)

    def end(self, process):
        process.kill()
        process.wait()

    def test_every_counter_of_a_program_is_described(self):
        self.pair()
        counters = json.loads(self.weft("stat", "--json", "--interval", "100")[1])["counters"]
        known = documented()
        self.assertEqual({name for name in counters if not known.fullmatch(name.partition(".")[2])}, set())
        self.assertRegex(self.weft("stat", "alice", "--interval", "600")[1], r"alice\.qp\.0\.qp_state +RTS\n")

    def test_counters_of_a_program_that_has_ended_stay(self):
        holder = self.watcher("--node", "holder")
        server, client = self.pair("srv", "cli")
        for process in (client, server):
            self.end(process)
        harness.wait_for(lambda: "srv" not in self.nodes(), "srv to be gone")
        code, out, errors = self.weft("stat", "srv", "--interval", "100")
        self.assertEqual(code, 0, errors)
        self.assertRegex(out, r"srv\.adapter\.port\.1\.cells_sent +[1-9]")
        self.assertIn("srv has ended; these are its last counters\n", out)
        self.assertIn("nothing blocks", out)
        self.assertNotIn("srv.", self.weft("stat", "--interval", "100")[1], "it is not among those that run")
        code, _, errors = self.weft("stat", "svr", "--interval", "100")
        self.assertEqual((code, "holder" in errors), (1, True))
        self.end(holder)

    def test_more_than_twenty_programs_have_a_line_each(self):
        programs = [self.watcher("--node", f"p{i:02}") for i in range(21)]
        harness.wait_for(lambda: sum(node["lid"] != 0 for node in self.nodes().values()) == 21, "all to be there")
        said = self.weft("status")[1].splitlines()
        self.assertLess(len(said), 28, said)
        self.assertEqual(len([line for line in said if re.match(r"p\d\d .*up at s1:\d+", line)]), 21)
        self.assertTrue(any("spare ports: 21 in use" in line for line in said), said)
        self.assertGreater(len(self.weft("status", "--all")[1].splitlines()), 42)
        for program in programs:
            self.end(program)

    def test_devices_show_lid_and_address(self):
        holder = self.watcher("--node", "fixed")
        named = self.watcher("--node", "given", "--ip", "fd00::7,10.9.8.7")
        harness.wait_for(lambda: {"fixed", "given"} <= set(self.nodes()) and
                         all(self.nodes()[name]["lid"] for name in ("fixed", "given")), "both to join")
        lid = self.nodes()["fixed"]["lid"]
        text = self.weft("devices")[1]
        own = f"10.87.{lid >> 8}.{lid & 255}"
        self.assertRegex(text, rf"lid {lid} \(0x{lid:04x}\) +ip {re.escape(own)} +guid [0-9a-f]{{16}}  fixed")
        devices = json.loads(self.weft("devices", "--json")[1])["switches"][0]["devices"]
        self.assertEqual({one["name"]: one["ip"] for one in devices}, {"fixed": own, "given": "10.9.8.7"})
        code, _, errors = self.weft("run", "--ip", "10.0.0.7,hello", "true")
        self.assertEqual(code, 125)
        self.assertIn("not 'hello'", errors)
        code, _, errors = self.weft("run", "--ip", "10.87.0.9", "true")
        self.assertEqual(code, 125)
        self.assertIn("--ip: 10.87.0.9 cannot be chosen", errors)
        self.end(named)
        self.end(holder)

    def test_the_daemon_is_shown_as_what_it_is(self):
        holder = self.watcher("--node", "holder")
        harness.wait_for(self.running, "a fabric")
        launcher = json.loads(self.weft("status", "--json")[1])["launcher"]
        with open(f"/proc/{launcher}/cmdline", "rb") as file:
            self.assertEqual(file.read().rstrip(b"\0"), b"weft: fabric default")
        self.end(holder)

    @unittest.skipUnless(shutil.which("bash"), "bash is not installed")
    def test_a_shell_has_a_mark_and_the_options_of_run(self):
        show = 'echo "$WEFT_FLAVOUR $WEFT_NODE $WEFT_SHELL"; exit\n'
        done = subprocess.run([self.bin / "weft", "shell", "--roce", "--node", "alice"], input=show, capture_output=True, text=True,
                              timeout=60, env=dict(self.environment, SHELL="/bin/sh"))
        self.assertEqual((done.returncode, done.stdout), (0, "roce alice alice@default\n"), done.stderr)
        done = subprocess.run([self.bin / "weft", "shell"], input="exit\n", capture_output=True, text=True, timeout=60,
                              env=dict(self.environment, SHELL=shutil.which("bash"), HOME=str(self.path)))
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.path / ".bashrc").write_text("PS1='mine$ '\n")
        wrapper = self.path / "shell"
        wrapper.write_text("#!/bin/sh\nexec bash -i\n")
        wrapper.chmod(0o755)
        done = subprocess.run([self.bin / "weft", "shell"], input="exit\n", capture_output=True, text=True, timeout=60,
                              env=dict(self.environment, SHELL=str(wrapper), HOME=str(self.path)))
        self.assertIn("(default) mine$ ", done.stderr, "bash's start-up file set another prompt")


@unittest.skipUnless(shutil.which("bash"), "bash is not installed")
class CompletionTest(WeftCase):
    def complete(self, *words):
        """What the last word may become."""
        script = (f'. "{SOURCE}/tools/completion/weft"; COMP_WORDS=(weft "$@"); COMP_CWORD=$#; COMPREPLY=(); _weft;'
                  ' printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, timeout=60, cwd=self.path,
                              env=dict(self.environment, PATH=f"{self.bin}:{os.environ['PATH']}"))
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_nodes_fabrics_faults_and_options(self):
        self.up()
        self.assertLessEqual({"h1", "u1", "s1"}, self.complete("stat", ""))
        self.assertEqual(self.complete("stat", "-f", ""), {"t"})
        self.assertEqual(self.complete("run", "--fabric", ""), {"t", "t.toml"})
        self.assertEqual(self.complete("fault", "c"), {"clear"})
        self.assertEqual(self.complete("fault", "h1", "d"), {"drop", "duplicate", "delay"})
        self.assertEqual(self.complete("fault", "--direction", ""), {"both", "from", "to"})
        self.assertEqual(self.complete("stat", "--so"), {"--sort"})
        self.assertEqual(self.complete("st"), {"status", "stat"})


if __name__ == "__main__":
    unittest.main()
