"""Figures of stock programs on Weft: perftest, the start of a program, Open MPI.

Programs run as in scripts/stock: unmodified, through `weft run`, and as the user `nobody` if this is run as root. They share one
fabric, which a sleeping program keeps alive, and the session of this process, like programs of one shell. They are not bound to
cores.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from figure import Figure, Target
from running import Failed, run, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "stock"))
import kill_runs  # noqa: E402
import stock  # noqa: E402

STARTS = 5  # starts of a program for one value
NEEDS_MPI = {"mpirun": "openmpi-bin", "mpicc": "libopenmpi-dev"}
FIRST_PORT = 26000
MIB = 1.048576  # factor from perftest's "MB" (2^20 bytes) to 10^6 bytes


class Programs:
    """Starts stock programs, without Weft or on a fabric that lives as long as this object. The fabric is made at first use."""

    def __init__(self, build):
        self.build, self.port = build, FIRST_PORT
        self.stack = contextlib.ExitStack()
        self.scratch = self.weft = self.keeper = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def prepare(self):
        if self.scratch:
            return
        self.scratch = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-")))
        self.scratch.chmod(0o755)
        self.weft = stock.reachable_build(self.build.resolve(), self.scratch)
        self.home = self.directory("home")

    def directory(self, name):
        """Makes a directory that the programs' user may write."""
        made = self.scratch / name
        for path, mode in ((made, 0o755), (made / "run", 0o700)):
            path.mkdir(mode=mode)
            if os.geteuid() == 0:
                os.chown(path, stock.NOBODY, stock.NOBODY)
        return made

    def words(self, command, bare=False):
        return stock.as_user([*([] if bare else [str(self.weft), "run", "--"]), *map(str, command)])

    def environment(self, home, more):
        return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "LANG": "C.UTF-8",
                **(more or {})}

    @contextlib.contextmanager
    def running(self, command, bare=False, environment=None):
        """Runs a program for the duration of a block, and ends it afterwards if it still runs."""
        with tempfile.TemporaryFile(dir=self.scratch) as output:
            child = subprocess.Popen(self.words(command, bare), stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, cwd=self.home, process_group=0,
                                     env=self.environment(self.home, environment))
            try:
                yield child
            finally:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(1)
                for number in (signal.SIGTERM, signal.SIGKILL):
                    if child.poll() is None:
                        os.killpg(child.pid, number)
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            child.wait(3)

    def finish(self, command, bare=False, environment=None, home=None, timeout=60, may_fail=False):
        """Standard output of a program that must succeed unless `may_fail`."""
        home = home or self.home
        try:
            done = subprocess.run(self.words(command, bare), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  cwd=home, env=self.environment(home, environment), timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[0]}: no result within {timeout} s") from None
        if done.returncode != 0 and not may_fail:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise Failed(f"{' '.join(map(str, command))}: exit {done.returncode}: {last}")
        return done.stdout

    def compiled(self, name, compiler, *libraries):
        """Compiles a program of tests/stock with the headers and libraries of the distribution. @return its path"""
        program = self.scratch / name
        run([compiler, "-O2", "-o", program, ROOT / "tests" / "stock" / f"{name}.c", *libraries])
        return program

    def join(self):
        """Starts the fabric unless it runs already."""
        self.prepare()
        if not self.keeper:
            self.keeper = self.stack.enter_context(self.running(["sleep", "3600"]))
            self.stack.callback(self.keeper.terminate)
            self.finish(["true"])

    def exchange(self, command, bare=False, environment=None, to=("127.0.0.1",), begins=None):
        """Runs a program as server and client, which meet at a port. `to`: how the client names the server. The client begins when that
        listens at the TCP port, or after `begins` seconds, for servers that listen at none. @return the client's output"""
        if bare:
            self.prepare()
        else:
            self.join()
        self.port += 1
        command = [command[0], "-p", self.port, *command[1:]]
        with self.running(command, bare, environment) as server:
            if begins is not None:
                time.sleep(begins)
            else:
                wait_until(f"{command[0]} listens", 15, lambda: kill_runs.listening(self.port) or server.poll() is not None)
            return self.finish([*command, *to], bare, environment)


def last_row(text, columns):
    """The numbers of the last line that consists of `columns` numbers (or "nan")."""
    rows = [row for line in text.splitlines() if len(row := line.split()) == columns
            and all(re.fullmatch(r"[\d.]+|-?nan", word) for word in row)]
    if not rows:
        raise Failed(f"no line of {columns} figures in the output")
    return [float(word) for word in rows[-1]]


class Perftest:
    """Latencies and bandwidths of perftest's programs."""

    def __init__(self, programs, environment=None):
        self.programs, self.environment = programs, environment

    def latency(self, program, iterations, seen):
        """Typical latency in microseconds; the other values of the distribution go to `seen`."""
        row = last_row(self.programs.exchange([program, "-F", "-s", "8", "-n", iterations], environment=self.environment), 9)
        for name, column in (("average", 5), ("99 %", 7), ("99.9 %", 8)):
            seen.setdefault(name, []).append(row[column])
        return row[4]

    def bandwidth(self, size, iterations, *options):
        """(MB/s, millions of messages per second)"""
        command = ["ib_write_bw", "-F", "-s", size, "-n", iterations, *options]
        row = last_row(self.programs.exchange(command, environment=self.environment), 5)
        return row[3] * MIB, row[4]


class SpinLatency:
    """Two processes that wait by reading memory. A program of ours, because perftest's programs poll their CQ after each write."""

    def __init__(self, programs, seconds, environment=None):
        self.programs, self.seconds, self.environment = programs, seconds, environment
        self.program, self.seen = None, {}

    def measure(self):
        self.programs.join()
        if not self.program:
            self.program = self.programs.compiled("spin_lat", "cc", "-libverbs")
        _, typical, most, nearly_all = map(float, self.programs.finish([self.program, self.seconds], environment=self.environment).split())
        self.seen.setdefault("99 %", []).append(most)
        self.seen.setdefault("99.9 %", []).append(nearly_all)
        return typical


class Starts:
    """Milliseconds from the start of a program that lists RDMA devices to its end."""

    COMMAND = ["ibv_devices"]

    def __init__(self, programs):
        self.programs, self.fabrics = programs, 0

    def once(self, bare=False, home=None):
        """Time of one start. Without a device the program fails."""
        begin = time.perf_counter()
        self.programs.finish(self.COMMAND, bare, home=home, may_fail=bare)
        return (time.perf_counter() - begin) * 1000

    def bare(self):
        self.programs.prepare()
        return statistics.median(self.once(bare=True) for _ in range(STARTS))

    def joined(self):
        self.programs.join()
        return statistics.median(self.once() for _ in range(STARTS))

    def with_fabric(self):
        """Time of a start with a new fabric. Waits for the end of the fabric, so that it is in no other measurement."""
        self.programs.prepare()
        self.fabrics += 1
        home = self.programs.directory(f"fabric-{self.fabrics}")
        value = self.once(home=home)
        wait_until("the fabric ends with its last program", 10, lambda: not list((home / "run").glob("weft/*/*.sock")))
        return value


class PlainWork:
    """Processor time in milliseconds of work that does not use RDMA (plain_work.py)."""

    PROGRAM = (ROOT / "bench" / "plain_work.py").read_text()  # passed as text: the user may have no access to our directory

    def __init__(self, programs):
        self.programs, self.runs = programs, 0

    def measure(self, what, bare):
        if not bare:
            self.programs.join()
        self.programs.prepare()
        self.runs += 1
        home = self.programs.directory(f"plain-{self.runs}")
        environment = {} if bare else {"XDG_RUNTIME_DIR": str(self.programs.home / "run")}  # the directory of the fabric
        return float(self.programs.finish(["python3", "-c", self.PROGRAM, what], bare, home=home, environment=environment))


def plain_figures(programs):
    """Figures of plain work. Each started program maps one more object, which matters for a shell that only starts programs."""
    work = PlainWork(programs)
    for what, program, bound in (("compile", "cc", 1.02), ("git", "git", 1.05), ("shell", "sh", 1.2)):
        yield Figure(f"stock_plain_{what}", "ms", lambda what=what: work.measure(what, False), lambda what=what: work.measure(what, True),
                     "without weft run", Target("at most", bound), needs={program: {"cc": "gcc", "git": "git", "sh": "dash"}[program]})


class Mpi:
    """Two ranks of Open MPI over UCX: half a round trip of 8 bytes in us, and MB/s of 64 KiB messages in windows of 64."""

    OVER = {"rc_verbs": {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "weft0:1"},
            "posix": {"UCX_TLS": "posix,self"}, "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}}

    def __init__(self, programs, environment=None):
        self.programs, self.environment, self.program = programs, environment or {}, None

    def measure(self, what, over):
        if not self.program:
            self.programs.prepare()
            self.program = self.programs.compiled("mpi_check", "mpicc")
        if over == "rc_verbs":
            self.programs.join()
        command = ["mpirun", "--oversubscribe", "--mca", "btl", "^openib,uct,ofi", "--mca", "pml", "ucx",
                   "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-n", "2", self.program, what]
        text = self.programs.finish(command, bare=over != "rc_verbs", environment={**self.OVER[over], **self.environment})
        return float(text.split()[-1])


def mpi_figures(programs):
    mpi = Mpi(programs)
    for name, unit in (("lat", "us"), ("bw", "MB/s")):
        for other in ("posix", "tcp"):
            yield Figure(f"stock_mpi_{name}_{other}", unit, lambda name=name: mpi.measure(name, "rc_verbs"),
                         lambda name=name, other=other: mpi.measure(name, other), f"the same over UCX {other}", needs=NEEDS_MPI)


def ucx_latency(programs, iterations):
    """Typical one-way microseconds of 8 bytes over UCX and TCP of the loopback interface, without Weft."""
    text = programs.exchange(["ucx_perftest", "-t", "tag_lat", "-s", "8", "-n", iterations], bare=True,
                             environment={"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"})
    found = re.search(r"^Final:\s+\d+\s+([0-9.]+)", text, re.MULTILINE)
    if not found:
        raise Failed("ucx_perftest: no line 'Final:'")
    return float(found.group(1))


def figures(programs, bare_way, bare_megabytes, bare_messages, bare_spin, quick):
    """All figures of stock programs. References: `bare_way()` is one way of the bare pipeline in us, `bare_megabytes()` and
    `bare_messages()` are its rates, and `bare_spin()` is one way between programs that spin, in us."""
    perftest, starts = Perftest(programs), Starts(programs)
    rounds = 10_000 if quick else 100_000
    pipeline = {name: "perftest" for name in ("ib_send_lat", "ib_write_lat", "ib_write_bw")}
    send, over_tcp, write = {}, {}, {}
    yield Figure("stock_send_lat", "us", lambda: perftest.latency("ib_send_lat", rounds, send), bare_way,
                 "bare pipeline, one way", Target("at most", 2.5), needs=pipeline, seen=send)
    yield Figure("stock_send_lat_tcp", "us", lambda: perftest.latency("ib_send_lat", rounds, over_tcp),
                 lambda: ucx_latency(programs, rounds), "ucx_perftest tag_lat over UCX tcp", Target("at most", 1.0),
                 needs={**pipeline, "ucx_perftest": "ucx-utils"}, seen=over_tcp)
    for name, size, iterations in (("64k", 1 << 16, 8_000), ("1m", 1 << 20, 500)):
        count = iterations if quick else 5 * iterations
        yield Figure(f"stock_write_bw_{name}", "MB/s", lambda size=size, count=count: perftest.bandwidth(size, count)[0],
                     bare_megabytes, "bare pipeline, the same cells", Target("at least", 0.6), needs=pipeline)
    yield Figure("stock_write_rate_8", "M/s", lambda: perftest.bandwidth(8, 100 * rounds)[1], bare_messages,
                 "bare pipeline, 8-byte cells", Target("at least", 2, "value"), needs=pipeline)
    yield Figure("stock_write_lat", "us", lambda: perftest.latency("ib_write_lat", rounds, write), bare_way,
                 "bare pipeline, one way", Target("at most", 50, "value"), needs=pipeline, seen=write)
    spin = SpinLatency(programs, 0.3 if quick else 1.0)
    yield Figure("stock_spin_lat", "us", spin.measure, bare_spin, "sleepers beside spinning ends, one way",
                 Target("at most", 50, "value"), needs={"cc": "gcc libibverbs-dev"}, seen=spin.seen)
    devices = {"ibv_devices": "ibverbs-utils"}
    yield Figure("stock_start", "ms", starts.joined, starts.bare, "the program without weft run", Target("at most", 50, "more"),
                 needs=devices)
    yield Figure("stock_start_fabric", "ms", starts.with_fabric, starts.bare, "the program without weft run",
                 Target("at most", 300, "more"), needs=devices)
    yield from plain_figures(programs)
    yield from mpi_figures(programs)
