#!/usr/bin/env python3
"""Runs stock RDMA programs of the distribution on Weft and says which work.

  scripts/stock                every case of tests/stock/cases.py; exit 1 if one fails
  scripts/stock NAME...        the cases whose family or name contains NAME
  scripts/stock --list         names them
  scripts/stock --write        also writes docs/stock_programs.md, a line for each family, and build/stock_programs.md, one for each case
  scripts/stock NAME... --json FILE
                               writes the outcomes of these cases; `scripts/stock --outcomes FILE... --write` joins such files
  scripts/stock --kills N      kills programs, their peers and their switch at random moments, N rounds of each (kill_runs.py)
  scripts/stock --repeat 100 pingpong 'rping -V'
                               each of these 100 times
  scripts/stock --switches 3 --loss 1 --corrupt 0.1
                               the reliable ones, the sides of each two hops apart, while each link between switches loses 1 % of
                               the cells in each direction and damages 0.1 %; a case whose cells have not crossed them fails
  scripts/stock --direct both  programs reach each other through memory windows (weft run --direct)
  scripts/stock --direct one   one side of each pair wants windows, the other does not, so that both take the switch; one case after
                               the other it is the server, then the client
  scripts/stock --sanitized build/asan-ubsan ibverbs rdmacm
                               programs load the libraries of that build, and the address sanitizer's own before them

Each case has a fabric of its own (`weft run` starts it, and it ends with its last program), a private directory and a port
number of its own, and runs as the user `nobody` when this is run as root. One line for each, then a summary. Whoever ends
this, by whatever signal, ends all that it has started (warden.py).
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import kill_runs
import known_suites
import warden
from cases import LOSSES, OTHER_SIDE, PACKAGES, every_case, Outcome

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOBODY = 65534
GRACE_SECONDS = 10  # a server has this long to end after its client
CASE_PORTS = 3  # TCP ports of a case
PAGE = ROOT / "docs" / "stock_programs.md"
TABLE = ROOT / "build" / "stock_programs.md"


def install_packages(families):
    """The packages that these families need; as root the missing ones are installed."""
    missing = [package for family, packages in PACKAGES.items() if family in families for package in packages.split()
               if subprocess.run(["dpkg", "-s", package], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], stdout=subprocess.DEVNULL, check=True,
                       env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
    elif missing:
        sys.exit(f"stock: these packages are missing: {' '.join(missing)}; install them, or run this as root")


def last_port():
    """Numbers above are the kernel's for connections, and each may be in use. tgtd takes none above either."""
    lowest, _ = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return min(int(lowest), 1 << 15) - 1


def as_user(command):
    """The command without any privilege: root becomes nobody."""
    return [*kill_runs.as_user(NOBODY), *command] if os.geteuid() == 0 else command


def needs_build(build):
    if not (build / "bin" / "weft").exists():
        sys.exit(f"stock: {build}/bin/weft is missing; build it first (scripts/test)")


def reachable_build(build, scratch):
    """The build where the user may read it: it is installed elsewhere if the way to it is closed."""
    needs_build(build)
    weft = build / "bin" / "weft"
    if subprocess.run(as_user(["test", "-x", str(weft)])).returncode == 0:
        return weft
    prefix = scratch / "installed"
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], stdout=subprocess.DEVNULL, check=True)
    return prefix / "bin" / "weft"


class SanitizedLibraries:
    """The drop-in of a build with the address sanitizer, for programs that were built without."""

    def __init__(self, build, scratch):
        compiler = subprocess.run([ROOT / "scripts" / "clang", "clang++"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        runtime = subprocess.run([compiler, "-print-file-name=libclang_rt.asan-x86_64.so"], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout.strip()
        libraries = scratch / "sanitized"  # where every user may read them
        shutil.copytree(build / "lib" / "weft", libraries, symlinks=True)
        self.words = ["env", f"WEFT_STOCK_RUNTIME={runtime}", f"LD_PRELOAD={runtime}:{libraries}/libweft_preload.so", f"LD_LIBRARY_PATH={libraries}/verbs",
                      "ASAN_OPTIONS=detect_leaks=0:exitcode=99", "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:exitcode=99"]


class Fabric:
    """A fabric of one case that is more than the default one: several switches in a row, and faults. A program that sleeps keeps it.

    One side of a case stands at the first switch and the other at the last. With one switch the faults are at every port of
    programs; with several at both ends of each link between them. Each has a seed of its own, which its line in fabric.txt says."""

    NAME = "stock"
    SPARE_PORTS = 16
    SURE = 20  # where so many strikes are to be expected, none at all is no chance: e^-20

    def __init__(self, run, switches, faults):
        """`run(words, role)` starts words as the user, beside the case's programs; `faults` are kinds with their chances."""
        self.run = run
        self.names = [f"s{i + 1}" for i in range(switches)]
        self.faults = faults
        self.keeper = None
        self.crossed = self.struck = 0  # cells: through all switches; by faults

    def topology(self):
        lines = [f'fabric = "{self.NAME}"']
        for name in self.names:
            lines += ["[[switch]]", f'name = "{name}"', f"spare_ports = {self.SPARE_PORTS}"]
        for left, right in zip(self.names, self.names[1:]):
            lines += ["[[link]]", f'switches = ["{left}", "{right}"]']
        return "\n".join(lines) + "\n"

    def trunk_ports(self, name):
        """Numbers of a switch's ports to its neighbours. They come first."""
        neighbours = 1 if name in (self.names[0], self.names[-1]) else 2
        return range(1, 1 + (neighbours if len(self.names) > 1 else 0))

    def program_ports(self, name):
        trunks = len(self.trunk_ports(name))
        return range(1 + trunks, 1 + trunks + self.SPARE_PORTS)

    def faulty_ports(self):
        ports = self.program_ports if len(self.names) == 1 else self.trunk_ports
        return [(name, port) for name in self.names for port in ports(name)]

    def start(self, weft, file, state):
        """True when it runs and its faults are in force."""
        self.keeper = self.run([str(weft), "run", "--fabric", str(file), "--", "sleep", "1000"])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not all((state / self.NAME / f"{name}.sock").exists() for name in self.names):
            time.sleep(0.05)
        for name, port in self.faulty_ports():
            for kind, chance in self.faults:
                words = [str(weft), "fault", "--fabric", self.NAME, f"{name}:{port}", kind, "--chance", f"{chance}%",
                         "--direction", "from"]
                while self.run(words).wait() != 0:  # the switch listens a moment before its launcher answers for it
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(0.1)
        return True

    def ask(self, weft, directory, *words):
        """What `weft WORDS --json` answers."""
        role = f"asked-{words[0]}"
        self.run([str(weft), *words, "--fabric", self.NAME, "--json"], role=role).wait()
        return json.loads((directory / f"{role}.txt").read_text())

    def missed(self, weft, directory):
        """Why this was no run through all its switches and faults; None when it was. Takes down what was struck."""
        try:
            counters = self.ask(weft, directory, "stat")["counters"]
            rules = self.ask(weft, directory, "fault", "list")["faults"]
        except ValueError:
            return "the fabric does not answer"
        self.struck = sum(rule["struck"] for rule in rules)

        def cells_in(name, ports):
            return sum(counters[f"{name}.port.{port}.cells_in"] for port in ports)
        ends = {self.names[0], self.names[-1]}
        sent = sum(cells_in(name, self.program_ports(name)) for name in self.names)
        self.crossed = sum(cells_in(name, self.trunk_ports(name) if len(ends) > 1 else self.program_ports(name)) for name in ends)
        if 3 * self.crossed < sent or sent == 0:
            return f"of {sent} cells of its programs {self.crossed} have come through all switches"
        met = 0
        for name, port in self.faulty_ports():
            here = [rule for rule in rules if (rule["switch"], rule["port"]) == (name, port)]
            met += any(rule["matched"] for rule in here)
            for (kind, chance), rule in zip(self.faults, here):
                if rule["struck"] == 0 and rule["matched"] * chance / 100 > self.SURE:
                    return f"{kind} at {name}:{port} has struck none of {rule['matched']} cells"
            dropped = counters[f"{name}.port.{port}.drop_fault"]
            if dropped < sum(rule["struck"] for rule in here if rule["kind"] == "drop"):
                return f"{name}:{port} counts {dropped} cells lost by faults, fewer than were struck there"
        # Each link between switches carries cells both ways; with one switch there are two programs at least.
        if self.faults and met < max(2, 2 * len(self.names) - 2):
            return f"cells have come by the faults of {met} ports only"
        return None

    def switch_of(self, role):
        return self.names[-1] if role == "client" else self.names[0]


class Runner:
    """Runs one case: its fabric, its processes, its verdict."""

    def __init__(self, weft, scratch, options):
        self.weft = weft
        self.scratch = scratch
        self.wrap = dict(word.split("=", 1) for word in options.set)
        self.switches = options.switches
        self.faults = [(kind, chance) for kind, chance in (("drop", options.loss), ("corrupt", options.corrupt)) if chance]
        self.sanitized = SanitizedLibraries(options.sanitized, scratch) if options.sanitized else None
        # How much longer than usual a case may take: exchanges that sleep take as long as others keep the cores.
        self.slower = (4 if self.faults or self.sanitized else 1) * max(1, os.getloadavg()[0] / os.cpu_count())
        self.first_port = self.next_port = options.first_port
        self.direct = options.direct
        self.direct_side = "client"  # of the case that runs, with --direct one
        self.fabric = None
        self.struck = 0  # cells, by faults
        self.passage = ""  # what the last case's cells met

    def environment(self, directory, more):
        return {"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory / "run"),
                "LANG": "C.UTF-8", **self.wrap, **more}

    def spawn(self, words, directory, role, more):
        output = (directory / f"{role}.txt").open("ab")
        return subprocess.Popen(as_user(words), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=directory,
                                env=self.environment(directory, more), process_group=0)

    def start(self, case, words, directory, role):
        values = {"port": str(self.port), "dir": str(directory)}
        for key, value in values.items():
            words = [word.replace("{" + key + "}", value) for word in words]
        if self.sanitized:
            words = [*self.sanitized.words, *words]
        launcher = [str(self.weft), "run", *(["--roce"] if case.roce else [])]
        if self.fabric:
            here, there = (f"shm:{directory}/run/weft/{Fabric.NAME}/{self.fabric.switch_of(side)}.sock"
                           for side in ((role, "server") if role == "client" else (role, "client")))
            launcher += ["--fabric", Fabric.NAME, "--", "env", f"WEFT_FABRIC={here}", f"{OTHER_SIDE}={there}",
                         *([f"{LOSSES}=1"] if self.faults else [])]
        else:
            launcher.append("--")
        return self.spawn([*launcher, *words], directory, role, {**self.way(role), **case.environment})

    def way(self, role):
        """Whether a program wants memory windows. Those beside the server go with it."""
        side = "client" if role == "client" else "server"
        return {"WEFT_DIRECT": "1"} if self.direct == "both" or (self.direct == "one" and side == self.direct_side) else {}

    def wait_for_server(self, case, server):
        """Until the server waits for its client. Those on the fabric show nothing outside: a moment has to do."""
        if not case.listens:
            time.sleep(0.7)
            return
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and server.poll() is None and not kill_runs.listening(self.port):
            time.sleep(0.02)

    @staticmethod
    def end(process):
        """Ends what is left of a process and its children: they are a process group of their own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                break
            os.killpg(process.pid, number)
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                pass

    @staticmethod
    def end_strays(directory):
        """Kills what a case has left behind in groups of their own, such as fio's jobs: they stand in its directory."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and pathlib.Path(os.readlink(entry / "cwd")) == directory:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                pass  # it has ended, or is somebody else's

    def free_port(self):
        """The first of the numbers of a case, on which nobody listens. After the last number they begin anew."""
        while True:
            if self.next_port + CASE_PORTS - 1 > last_port():
                self.next_port = self.first_port
            port, self.next_port = self.next_port, self.next_port + CASE_PORTS
            if not any(kill_runs.listening(port + number) for number in range(CASE_PORTS)):
                return port

    def run(self, case):
        """Why the case failed; None when it passed."""
        self.port = self.free_port()
        self.direct_side = "server" if self.direct_side == "client" else "client"
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        (directory / "run").mkdir(mode=0o700)
        if case.prepare:
            case.prepare(directory)
        if os.geteuid() == 0:
            for path in (directory, *directory.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        server = client = self.fabric = None
        others = []
        try:
            if self.switches != 1 or self.faults:
                self.fabric = Fabric(lambda words, role="fabric": self.spawn(words, directory, role, {}), self.switches, self.faults)
                (directory / "fabric.toml").write_text(self.fabric.topology())
                if not self.fabric.start(self.weft, directory / "fabric.toml", directory / "run" / "weft"):
                    return f"no fabric (see {directory})"
            if case.server:
                server = self.start(case, case.server, directory, "server")
                others = [self.start(case, words, directory, f"other{number}") for number, words in enumerate(case.others)]
                self.wait_for_server(case, server)
            client = self.start(case, case.client, directory, "client")
            fault = self.judge(case, [server, *others] if server else [], client, directory)
            if self.fabric:
                missed = self.fabric.missed(self.weft, directory)
                self.struck += self.fabric.struck
                self.passage = f"; {self.fabric.crossed} cells, {self.fabric.struck} struck"
                fault = fault or (missed if case.talks else None)
        finally:
            for process in (client, server, *others, self.fabric and self.fabric.keeper):
                if process:
                    self.end(process)
            self.end_strays(directory)
        if not fault:
            shutil.rmtree(directory, ignore_errors=True)  # the fabric ends meanwhile, and removes its own
        return fault and f"{fault} (see {directory})"

    @staticmethod
    def standing(servers):
        """How those beside a client that failed have ended, if they have a moment later."""
        time.sleep(0.2)
        ended = [str(server.poll()) for server in servers if server.poll() is not None]
        return f"; server: status {', '.join(ended)}" if ended else ""

    @staticmethod
    def excused(case, status, output):
        """What the program says of its exit status is the program's own fault. Its lines may have run together."""
        return case.excuse is not None and status == case.excuse[0] and case.excuse[1] in output.read_text(errors="replace")

    def judge(self, case, servers, client, directory):
        try:
            status = client.wait(case.ended_after or case.seconds * self.slower)
            if case.ended_after:
                return f"ended by itself with status {status}"
            if status not in case.status and not self.excused(case, status, directory / "client.txt"):
                return f"client: status {status}{self.standing(servers)}"
        except subprocess.TimeoutExpired:
            if not case.ended_after:
                return f"client: not done after {case.seconds * self.slower:.0f} s"
        until = time.monotonic() + GRACE_SECONDS * self.slower
        for server in [] if case.persistent else servers:
            try:
                status = server.wait(max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                return "server: goes on after its client has ended"
            if status != 0 and not self.excused(case, status, directory / "server.txt"):
                return f"server: status {status}"
        texts = [path.read_text(errors="replace") if path.exists() else "" for path in
                 (directory / "server.txt", directory / "client.txt")]
        return case.check(Outcome(texts[0], texts[1], directory))


def summary(outcomes):
    families = {}
    for case, fault in outcomes:
        good, total = families.get(case.family, (0, 0))
        families[case.family] = (good + (fault is None), total + 1)
    passed = sum(good for good, _ in families.values())
    each = ", ".join(f"{name} {good}/{total}" for name, (good, total) in families.items())
    return f"stock {passed}/{len(outcomes)} (families: {each})"


def outcome(fault):
    return "passes" if fault is None else fault.split(" (see ")[0]


HEAD = """# Stock programs

For a user who asks whether a program runs on Weft. `scripts/stock` runs programs of Debian 12's packages, unmodified, as an
unprivileged user. Each case has a fabric of its own with one switch and without faults, and usually a server and a client; Open MPI
has four ranks, multicast up to four programs, and a case that only looks at the device one. Exceptions: `verbs_check` and the
program of `openmpi` (`mpi_check.c`) are of this project, compiled with the distribution's headers and libraries. Scripts of
`tests/stock/` start the programs of `qemu` and `iser`. Passed of tried:
"""
QUESTIONS = """| Question | Answer |
|---|---|
| Which cases are there? | `scripts/stock --list` names them; they are in `tests/stock/cases.py`. rsockets are in `rdmacm-utils` (rstream, rcopy, riostream, udpong, BusyBox's nc) |
| When does a case pass? | its client ends with the right status within 60 s (`qemu`, `iser` 150 s, `openmpi` 180 s; longer on a busy machine, four times with faults), its server ends with 0 within 10 s after that, and the output is right. What the programs of a failed case have printed stays in the directory that its line names |
| And with loss? | `scripts/stock --switches 3 --loss 1 --corrupt 0.1` ([testing.md](testing.md#system-tests)) leaves out cases that do not repair loss (UC, UD, multicast) and those without traffic; `--list --loss 1` names the others. `weft fault` makes the loss on the links between switches. A case also fails if its cells have not crossed the switches, or if a fault has struck none |
| What is `roce`? | cases of ibverbs-utils, perftest, rdmacm-utils and ucx under `weft run --roce`. A program that wants the index of a GID gets 3 (`-g 3`, `-x 3`). udpong is left out: rsockets addresses datagrams by a LID, and a RoCE port has none |
| How is this page made? | `scripts/stock --write` runs all cases and writes it, and the outcome of each case to `build/stock_programs.md`. For a part, `scripts/stock WORD... --json FILE`; then `scripts/stock --outcomes FILE... --write` with the files of all cases |
| Two runs at once? | with different `--first-port` ([testing.md](testing.md#system-tests)) |"""


def page(outcomes):
    """The summary that is checked in: a line for each family, and what does not pass."""
    lines = [HEAD, summary(outcomes).partition(" (")[0], "", "| Family | Passed | Cases | Cases that fail |", "|---|---|---|---|"]
    families = {}
    for case, fault in outcomes:
        families.setdefault(case.family, []).append((case, fault))
    for family, cases in families.items():
        bad = [f"`{case.name}`: {outcome(fault)}" for case, fault in cases if fault is not None]
        lines.append(f"| {family} | {len(cases) - len(bad)} | {len(cases)} | {'; '.join(bad)} |")
    return "\n".join([*lines, "", QUESTIONS, *known_suites.section()]) + "\n"


def table(outcomes):
    """Every case and its outcome."""
    lines = ["# Stock programs, case by case", "", summary(outcomes), "", "| Family | Case | Outcome |", "|---|---|---|"]
    lines += [f"| {case.family} | `{case.name}` | {outcome(fault)} |" for case, fault in outcomes]
    return "\n".join(lines) + "\n"


def run_all(chosen, runner, repeat):
    for case in chosen:
        start = time.monotonic()
        fault = next((fault for _ in range(repeat) if (fault := runner.run(case))), None)
        print(f"{'ok    ' if fault is None else 'FAILED'} {case.family}: {case.name} ({time.monotonic() - start:.1f} s{runner.passage})"
              + (f": {fault}" if fault else ""), flush=True)
        yield case, fault


def read_outcomes(chosen, files):
    """What earlier runs have written, each of a part of the cases; every case must be there."""
    known = {(one["family"], one["name"]): one["fault"] for file in files for one in json.loads(file.read_text())["cases"]}
    missing = [case.name for case in chosen if (case.family, case.name) not in known]
    if missing:
        sys.exit(f"stock: no outcome of {', '.join(missing)}")
    return [(case, known[case.family, case.name]) for case in chosen]


def write_outcomes(outcomes, options):
    if options.json:
        records = [{"family": case.family, "name": case.name, "passed": fault is None, "fault": fault} for case, fault in outcomes]
        options.json.write_text(json.dumps({"summary": summary(outcomes), "cases": records}, indent=1) + "\n")
    if options.write:
        PAGE.write_text(page(outcomes))
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text(table(outcomes))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build directory")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the outcomes")
    parser.add_argument("--write", action="store_true", help="write docs/stock_programs.md and build/stock_programs.md")
    parser.add_argument("--outcomes", type=pathlib.Path, nargs="+", metavar="FILE", help="take what --json wrote, and run nothing")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each case N times; it passes if all do")
    parser.add_argument("--kills", type=int, metavar="N", help="N rounds with each victim instead of the cases")
    parser.add_argument("--seed", type=int, default=None, help="of --kills; absent: from the time")
    parser.add_argument("--switches", type=int, default=1, metavar="N", help="in a row: servers join the first, clients the last")
    parser.add_argument("--loss", type=float, metavar="PERCENT", help="of the cells; only cases that repair it")
    parser.add_argument("--corrupt", type=float, metavar="PERCENT", help="of the cells; only cases that repair it")
    parser.add_argument("--direct", choices=("both", "one"), help="the sides that want memory windows; also with --kills")
    parser.add_argument("--sanitized", type=pathlib.Path, metavar="BUILD", help="build whose libraries the programs load")
    parser.add_argument("--first-port", type=int, default=21000, metavar="N", help="TCP ports from here: for several runs at once")
    parser.add_argument("--set", action="append", default=[], metavar="VAR=VALUE", help="an environment variable for all")
    chosen = parser.parse_args()
    if chosen.direct and (chosen.loss or chosen.corrupt or chosen.switches != 1):
        parser.error("--direct: what passes a memory window passes no switch")
    if chosen.kills and chosen.direct == "one":
        parser.error("--kills goes with --direct both")
    if chosen.write and (fault := why_no_page(chosen)):
        parser.error(f"--write: the page is of all cases, as a user runs them; leave out {fault}, or write parts with --json")
    if not 1024 <= chosen.first_port <= last_port() - 100 * CASE_PORTS:
        parser.error(f"--first-port: 1024 to {last_port() - 100 * CASE_PORTS}")
    return chosen


def why_no_page(options):
    """The first option that makes the outcomes others than those of the page."""
    others = {"NAME": options.names, "--loss": options.loss, "--corrupt": options.corrupt, "--switches": options.switches != 1,
              "--direct": options.direct, "--sanitized": options.sanitized, "--set": options.set, "--kills": options.kills}
    return next((option for option, given in others.items() if given), None)


def kills(options, scratch):
    """Exit status. What the programs said stays where something went wrong."""
    install_packages({"ibverbs-utils", "perftest", "rdmacm-utils"})
    weft = reachable_build(options.build.resolve(), scratch)
    directory = scratch / "run"
    directory.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(directory, NOBODY, NOBODY)
    seed = options.seed if options.seed is not None else int(time.time())
    faults = kill_runs.run(weft, directory, options.kills, seed, as_user([]), {"WEFT_DIRECT": "1"} if options.direct == "both" else {})
    print("\n".join(faults) if faults else "nothing hangs and nothing leaks")
    if not faults:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if faults else 0


def main():
    options = arguments()
    if options.kills:
        return supervised(lambda scratch: kills(options, scratch))
    chosen = [case for case in every_case()
              if (not options.names or any(name in f"{case.family}: {case.name}" for name in options.names))
              and (case.reliable and case.talks or not (options.loss or options.corrupt))
              and (case.server or options.direct != "one")]
    if not chosen:
        sys.exit("stock: no case of that name; see scripts/stock --list")
    if options.list:
        print("\n".join(f"{case.family}: {case.name}" for case in chosen))
        return 0
    if options.outcomes:
        outcomes = read_outcomes(chosen, options.outcomes)
        print(summary(outcomes))
        write_outcomes(outcomes, options)
        return 0
    needs_build(options.build)
    return supervised(lambda scratch: run_chosen(chosen, options, scratch))


def supervised(work):
    """The exit status of work(scratch directory), which nothing that it starts outlives; nor the directory, if it is ended."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-stock-"))
    scratch.chmod(0o755)
    status = warden.supervise(lambda: work(scratch))
    if status > 128:
        shutil.rmtree(scratch, ignore_errors=True)
    return status


def run_chosen(chosen, options, scratch):
    install_packages({case.family for case in chosen})
    runner = Runner(reachable_build(options.build.resolve(), scratch), scratch, options)
    outcomes = list(run_all(chosen, runner, options.repeat))
    print(summary(outcomes))
    if runner.faults:
        print(f"{runner.struck} cells lost or damaged")
    write_outcomes(outcomes, options)
    if all(fault is None for _, fault in outcomes):
        shutil.rmtree(scratch, ignore_errors=True)
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
