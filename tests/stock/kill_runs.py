"""Kills stock programs, their peers and their switch at random moments and looks at who is left.

Used by scripts/stock --kills N and by the system test of the same. A round runs a pair of every program at once, on one fabric
that stays for all rounds. One side of each pair is killed at a moment of its own, or the switch is, which its launcher starts
again. Whoever is left has to end by itself, unless it is a server that nobody had reached yet: that one must serve the next
client. After the rounds the fabric must be as it was before them: no port, descriptor, socket, file or memory more.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

VICTIMS = ("peer", "program", "switch")
END_SECONDS = 30        # for whoever is left: retries of QPs, silence of a peer, all of it on a machine under load
START_SECONDS = 20
SETTLE_SECONDS = 10     # the launcher and the switch close their ends of a question, as for these numbers, after its answer is read
LATEST_SECONDS = 1.5    # a victim is killed so long after its client was started, at most
ROUNDS_TO_JUDGE_WINDOWS = 9  # so many kills find each program with a window at least once
PORTS = 64              # of the fabric; a LID rests for a minute before another program gets it
TOPOLOGY = f'fabric = "kills"\n[[switch]]\nname = "s1"\nspare_ports = {PORTS}\n'
MAY_GROW = {"memory of the switch": 4 << 20,  # its tables fill
            "counters of programs": 32}       # those of so many ended programs stay
# A switch that is back late, by the retries that a program asks for (0.5 s), is an error that its QPs are right to tell.
GAVE_UP = re.compile(r"retry counter exceeded|status 12\b|retry exceeded", re.IGNORECASE)
LISTENS = "rdma_cm: LISTEN: done"  # what WEFT_DEBUG=cm says of a server
# rping's main thread closes the channel of events while its other thread is on the way to ask it for the next one. The kernel, too,
# answers EBADF then, and rping exits with 255 although all pings have come.
CLOSED_ITS_CHANNEL = (255, "rdma_get_cm_event: Bad file descriptor")


@dataclasses.dataclass
class Program:
    """A server and a client of it. `endless` and `short` are how much they do: more than there is time for, and almost nothing."""
    words: list
    server: list
    client: list
    count: str              # the option of how much
    endless: int
    short: int
    on_host: bool           # listens on a TCP port of the host, where one sees it
    may_wait: bool = False  # while it is the other's turn it has nothing outstanding: no device would tell it of the other's end

    @property
    def name(self):
        return self.words[0]

    def command(self, side, port, count):
        return [*self.words, "-p", str(port), self.count, str(count), *side]


def programs():
    """Those that are installed here."""
    every = [Program(["ibv_rc_pingpong"], [], ["127.0.0.1"], "-n", 100_000_000, 500, True, may_wait=True),
             Program(["ib_write_bw", "-F", "-s", "4096"], [], ["127.0.0.1"], "-n", 1_000_000, 1_000, True),
             Program(["rping"], ["-s"], ["-c", "-a", "127.0.0.1"], "-C", 1_000_000, 100, False),
             Program(["ucmatose", "-c", "4", "-S", "65536"], [], ["-s", "127.0.0.1"], "-C", 400, 400, False)]
    return [program for program in every if shutil.which(program.name)]


def listening(port):
    """Does somebody on this host wait for connections on the TCP port?"""
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


class Side:
    """One process of a pair, with what it says in a file."""

    def __init__(self, popen, output):
        self.popen = popen
        self.output = output

    def said(self):
        return self.output.read_text(errors="replace")

    def wait(self, seconds):
        """The exit status; None when it has not ended by then."""
        try:
            return self.popen.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return None

    def last_line(self):
        return (self.said().strip().splitlines() or ["nothing"])[-1]

    def last_words(self):
        return f"{self.output}: {self.last_line()}"

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
            if self.wait(END_SECONDS) is None:
                raise RuntimeError(f"{self.output.stem} has not ended {END_SECONDS} s after SIGKILL")


@dataclasses.dataclass
class Pair:
    program: Program
    port: int
    server: Side
    client: Side = None
    moment: float = 0.0  # of the kill, after the client's start

    def waits_for_nobody(self):
        """The client has given up, and the server may have nothing outstanding: no device would tell it."""
        return self.program.may_wait and self.client.popen.poll() is not None and bool(GAVE_UP.search(self.client.said()))


class Fabric:
    """The fabric of all rounds. `prefix` goes before every command, as to run it as another user; `environment` is of all programs."""

    def __init__(self, weft, directory, prefix=(), environment=None):
        self.weft = str(weft)
        self.directory = pathlib.Path(directory)
        self.prefix = list(prefix)
        self.state = self.directory / "state"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "LANG": "C.UTF-8", "WEFT_DEBUG": "cm",
                            "WEFT_STATE_DIR": str(self.state), **(environment or {})}

    def tell(self, *words):
        done = subprocess.run([*self.prefix, self.weft, *words], capture_output=True, text=True, timeout=60,
                              env=self.environment, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"weft {' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def up(self):
        topology = self.directory / "kills.toml"
        topology.write_text(TOPOLOGY)
        topology.chmod(0o644)
        self.tell("up", "--detach", str(topology))

    def down(self):
        self.tell("down", "--fabric", "kills")

    def start(self, words, output):
        with output.open("wb") as out:
            popen = subprocess.Popen([*self.prefix, self.weft, "run", "--fabric", "kills", "--", *words], stdout=out,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self.environment,
                                     cwd=self.directory, process_group=0)
        return Side(popen, output)

    def has_windows(self):
        return self.environment.get("WEFT_DIRECT") == "1"

    def ways(self):
        """By name of the program: the ways of its RC queue pairs that are up, `window` or `switch`."""
        ways = {}
        for node in json.loads(self.tell("status", "--fabric", "kills", "--json"))["nodes"]:
            found = [qp["way"] for qp in node.get("queue_pairs", ()) if (qp["service"], qp["state"]) == ("RC", "RTS")]
            ways[node["program"]] = ways.get(node["program"], []) + found
        return ways

    def processes(self):
        """Numbers of the launcher and of the switch, once that is ready."""
        while True:
            status = json.loads(self.tell("status", "--fabric", "kills", "--json"))
            if status["nodes"][0]["ready"]:
                return status["launcher"], status["nodes"][0]["pid"]
            time.sleep(0.05)

    def used_ports(self):
        return PORTS - json.loads(self.tell("devices", "--fabric", "kills", "--json"))["switches"][0]["free"]

    def empty(self):
        """Waits until nobody is on it any more, and lets somebody clear up. What holdings() is to be told."""
        deadline = time.monotonic() + 10
        while (used := self.used_ports()) != 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        self.tell("run", "--fabric", "kills", "--", "true")  # whoever comes clears up behind those that could not
        return used, *self.processes()

    def holdings(self, used, launcher, switch):
        """What the fabric holds, by name. It is looked at from outside: a question would be something that it holds."""
        status = pathlib.Path(f"/proc/{switch}/status").read_text().split()
        programs = [path.name for path in (self.state / "kills" / "programs").glob("*")]
        counters = [name for name in programs if name.endswith(".stats")]
        doors = list((self.state / "kills" / "programs" / "direct").glob("*"))
        return {"ports": used, "memory of the switch": int(status[status.index("VmRSS:") + 1]) * 1024,
                "descriptors of the switch": len(os.listdir(f"/proc/{switch}/fd")),
                "descriptors of the launcher": len(os.listdir(f"/proc/{launcher}/fd")),
                "sockets": pathlib.Path("/proc/net/unix").read_text().count(str(self.state)),
                "counters of programs": len(counters), "sockets of windows": len(doors),
                "trees of programs": len([name for name in programs if name not in counters and name != "direct"])}

    def outages(self):
        """For how long there was no switch, each time, in seconds: from its death until the next one listened. By its log."""
        out, died = [], None
        for line in (self.state / "kills" / "s1.log").read_text(errors="replace").splitlines():
            at, _, said = line.partition(" ")
            if "s1 killed by signal" in said:
                died = float(at)
            elif died is not None and "listening on" in said:
                out.append(float(at) - died)
                died = None
        return out


class KillRuns:
    """Rounds on one fabric, from one seed."""

    def __init__(self, fabric, seed, first_port=24000):
        self.fabric = fabric
        self.random = random.Random(seed)
        self.port = first_port
        self.before = fabric.holdings(*fabric.empty())
        self.whole = {}  # by program: how much it does in the time in which victims are killed, on this machine as it is
        self.rounds = 0
        # By program: kills that struck it while it had a window, and while its RC queue pairs used the switch.
        self.with_window = dict.fromkeys((program.name for program in programs()), 0)
        self.without_window = dict(self.with_window)
        self.outcomes = dict.fromkeys(("ended by itself", "ended before the kill", "served the next client",
                                       "had nothing outstanding", "gave up by its own time-outs"), 0)

    def start_server(self, program, count):
        self.port += 1
        output = self.fabric.directory / f"{program.name}-{self.port}-server.txt"
        pair = Pair(program, self.port, self.fabric.start(program.command(program.server, self.port, count), output))
        pair.moment = self.random.uniform(0, LATEST_SECONDS)
        return pair

    def start_client(self, pair, count):
        output = self.fabric.directory / f"{pair.program.name}-{pair.port}-client-{count}.txt"
        return self.fabric.start(pair.program.command(pair.program.client, pair.port, count), output)

    def wait_for_servers(self, pairs):
        deadline = time.monotonic() + START_SECONDS
        for pair in pairs:
            while not (listening(pair.port) if pair.program.on_host else LISTENS in pair.server.said()):
                if time.monotonic() > deadline or pair.server.popen.poll() is not None:
                    raise RuntimeError(f"{pair.program.name}: the server does not listen: {pair.server.said()}")
                time.sleep(0.02)

    def look_at_ways(self, *names):
        """Before a kill: counts the programs of these names that have a window, if the fabric has windows at all."""
        if not self.fabric.has_windows():
            return
        ways = self.fabric.ways()
        for name in names:
            self.with_window[name] += "window" in ways.get(name, ())
            self.without_window[name] += "switch" in ways.get(name, ())

    def never_had_windows(self):
        """Programs that go on until they are killed and that no kill found with a window, a line for each."""
        if not self.fabric.has_windows() or self.rounds < ROUNDS_TO_JUDGE_WINDOWS:
            return []
        return [f"{program.name}: no kill found it with a memory window" for program in programs()
                if program.endless > program.short and self.with_window[program.name] == 0]

    def round(self, victim):
        """What went wrong, a line for each."""
        self.rounds += 1
        if victim == "switch" and not self.whole:
            self.measure()
        amounts = self.whole if victim == "switch" else {program.name: program.endless for program in programs()}
        with self.running(amounts) as pairs:
            return self.kill_switch(pairs) if victim == "switch" else self.kill_sides(pairs, victim)

    def measure(self):
        """Lets each program do little and sees how long it takes: as much as that, so many times, is done while a switch dies."""
        start = time.monotonic()
        with self.running({program.name: program.short for program in programs()}) as pairs:
            for pair in pairs:
                if pair.client.wait(2 * END_SECONDS) != 0:
                    raise RuntimeError(f"{pair.program.name}: fails with nobody killed (see {pair.client.output})")
                times = max(1, int(LATEST_SECONDS / (time.monotonic() - start)))
                self.whole[pair.program.name] = min(pair.program.short * 2 * times, pair.program.endless)

    @contextlib.contextmanager
    def running(self, amounts):
        """Pairs of all programs that have begun to do so much."""
        pairs = [self.start_server(program, amounts[program.name]) for program in programs()]
        try:
            self.wait_for_servers(pairs)
            for pair in pairs:
                pair.client = self.start_client(pair, amounts[pair.program.name])
            yield pairs
        finally:
            for pair in pairs:
                for side in (pair.server, pair.client):
                    if side is not None:
                        side.kill()

    def kill_switch(self, pairs):
        start = time.monotonic()
        _, switch = self.fabric.processes()
        time.sleep(max(0.0, pairs[0].moment - (time.monotonic() - start)))
        self.look_at_ways(*self.with_window)
        os.kill(switch, signal.SIGKILL)
        faults = []
        deadline = time.monotonic() + 2 * END_SECONDS
        for pair in pairs:
            for name, side in (("client", pair.client), ("server", pair.server)):
                status = side.wait(deadline - time.monotonic())
                if status is None and name == "server" and pair.waits_for_nobody():
                    self.outcomes["had nothing outstanding"] += 1
                elif status is None:
                    faults.append(f"{pair.program.name}: the {name} hangs without its switch ({side.last_words()})")
                elif status != 0 and any(GAVE_UP.search(one.said()) for one in (pair.client, pair.server)):
                    self.outcomes["gave up by its own time-outs"] += 1
                elif status != 0 and ("rping", *CLOSED_ITS_CHANNEL) != (pair.program.name, status, side.last_line()):
                    faults.append(f"{pair.program.name}: the {name} ended with {status} ({side.last_words()})")
                else:
                    self.outcomes["ended by itself"] += 1
        return faults

    def kill_sides(self, pairs, victim):
        start = time.monotonic()
        for pair in sorted(pairs, key=lambda one: one.moment):
            time.sleep(max(0.0, pair.moment - (time.monotonic() - start)))
            self.look_at_ways(pair.program.name)
            left = pair.server if victim == "program" else pair.client
            self.outcomes["ended before the kill"] += left.popen.poll() is not None
            (pair.client if victim == "program" else pair.server).kill()
        deadline = time.monotonic() + END_SECONDS
        return [fault for pair in pairs if (fault := self.judge(pair, victim, deadline))]

    def judge(self, pair, victim, deadline):
        """Why whoever is left of a pair did wrong; None when it did right."""
        name = pair.program.name
        left = pair.server if victim == "program" else pair.client
        # A server that nobody had reached would wait for the rest of the time: it is asked early.
        waits = victim == "program" and pair.program.on_host and listening(pair.port)
        status = left.wait(0 if waits else END_SECONDS / 6)
        if status is None and victim == "program" and self.serves(pair):
            self.outcomes["served the next client"] += 1
            return None
        status = left.wait(deadline - time.monotonic())
        if status is None and pair.program.may_wait:
            self.outcomes["had nothing outstanding"] += 1
            return None
        if status is None:
            return f"{name}: whoever was left when the {victim} was killed hangs ({left.last_words()})"
        if status < 0:
            return f"{name}: whoever was left when the {victim} was killed died by signal {-status} ({left.last_words()})"
        self.outcomes["ended by itself"] += 1
        return None

    def serves(self, pair):
        client = self.start_client(pair, pair.program.short)
        try:
            return client.wait(END_SECONDS / 3) == 0
        finally:
            client.kill()

    def leaks(self):
        """What the fabric has more of than before the rounds, and keeps, a line for each."""
        asked = self.fabric.empty()
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            after = self.fabric.holdings(*asked)
            more = [f"{what}: {before} before, {after[what]} after the rounds" for what, before in self.before.items()
                    if after[what] > before + MAY_GROW.get(what, 0)]
            if not more or time.monotonic() > deadline:
                return more
            time.sleep(0.2)


def as_user(user):
    """What goes before a command that is to run as that uid and gid, without any privilege."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
            "--no-new-privs"]


def run_round(runs, victim):
    """What went wrong, a line for each."""
    try:
        return runs.round(victim)
    except RuntimeError as fault:
        return [str(fault)]


def run_rounds(fabric, rounds, seed, report, seconds=float("inf")):
    """So many rounds on a fabric that is up, with one victim after the other; after so many seconds no further ones, though each
    victim has its first. What went wrong, a line for each."""
    faults, done = [], 0
    runs = KillRuns(fabric, seed)
    until = time.monotonic() + seconds
    for number in range(rounds):
        for victim in VICTIMS:
            start = time.monotonic()
            if number > 0 and start > until:
                continue
            found = run_round(runs, victim)
            done += 1
            faults += [f"round {number + 1} of the {victim}: {fault}" for fault in found]
            report(f"{'FAILED' if found else 'ok    '} {victim} {number + 1}/{rounds} ({time.monotonic() - start:.1f} s)"
                   + "".join(f"\n       {fault}" for fault in found))
    faults += runs.leaks() + runs.never_had_windows()
    counts = ", ".join(f"{count} {what}" for what, count in runs.outcomes.items())
    report(f"kills {done} rounds of {len(programs())} programs, seed {seed}: {counts}")
    if fabric.has_windows():
        report("with a window when a kill struck: " + ", ".join(f"{name} {count}" for name, count in runs.with_window.items())
               + "; with the switch: " + ", ".join(f"{name} {count}" for name, count in runs.without_window.items()))
    if outages := fabric.outages():
        report(f"the switch was back after {min(outages):.2f} to {max(outages):.2f} s")
    return faults


def run(weft, directory, rounds, seed, prefix=(), environment=None):
    fabric = Fabric(weft, directory, prefix, environment)
    fabric.up()
    try:
        return run_rounds(fabric, rounds, seed, lambda line: print(line, flush=True))
    finally:
        fabric.down()
