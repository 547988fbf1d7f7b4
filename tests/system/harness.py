"""Real processes for system tests: a private state directory, the three programs with the options of their --help, their
stats pages, and an end that leaves nothing behind.

Every child gets SIGKILL from the kernel when the test dies, so that a crash of a test leaves no process; its namespaces
and interfaces carry the test's pid in their names and the next run removes those whose pid is gone (netns.py).
Waits are on counters with generous limits; only the limits of the requirements themselves are measured, with the monotonic
clock.
"""
import ctypes
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time

BIN = pathlib.Path(os.environ.get("WEFT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
WAIT_SECONDS = 20.0  # for what must happen but has no limit of its own
NOTICE_SECONDS = 2.0  # the others notice a death (issue 2, "What must hold")
RESUME_SECONDS = 3.0  # the session resumes after the restart
STATS_HEADER = struct.Struct("=8sIIII40x")
STATS_NAME_BYTES = 56
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
IS_ROOT = os.geteuid() == 0


class WaitFailed(AssertionError):
    """Something did not happen in time; carries what the processes said."""


def wait_for(condition, what, seconds=WAIT_SECONDS, interval=0.005):
    """Polls until `condition()` is true and returns its value and the seconds it took."""
    start = time.monotonic()
    while True:
        value = condition()
        took = time.monotonic() - start
        if value:
            return value, took
        if took > seconds:
            raise WaitFailed(f"not within {seconds} s: {what}")
        time.sleep(interval)


def as_user(user):
    """What goes before a command that is to run as that uid and gid, without any right."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all",
            "--bounding-set=-all", "--"]


class StatsPage:
    """Reads a process's counters from its stats page (layout: base/stats_page.h)."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def read(self):
        """name -> value; empty when there is no page yet."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        if len(data) < STATS_HEADER.size:
            return {}
        magic, version, entries, capacity, _pid = STATS_HEADER.unpack_from(data)
        if magic != b"WEFTSTAT" or version != 1:
            return {}
        names = STATS_HEADER.size
        values = names + capacity * STATS_NAME_BYTES
        if len(data) < values + capacity * 8:
            return {}
        out = {}
        for index, value in enumerate(struct.unpack_from(f"={min(entries, capacity)}Q", data, values)):
            at = names + index * STATS_NAME_BYTES
            out[data[at:at + STATS_NAME_BYTES].split(b"\0", 1)[0].decode()] = value
        return out

    def pid(self):
        data = self.path.read_bytes()[:STATS_HEADER.size]
        return STATS_HEADER.unpack(data)[4]

    def total(self, pattern):
        """Sum of all counters whose whole name matches the regular expression."""
        match = re.compile(pattern).fullmatch
        return sum(value for name, value in self.read().items() if match(name))


class Process:
    """One program. start() may be called again after it died: the same options, a new incarnation."""

    def __init__(self, directory, name, argv, namespace=None, user=None):
        self.directory = pathlib.Path(directory)
        self.name = name
        self.argv = [str(word) for word in argv]
        self.namespace = namespace  # netns.Namespace or None
        self.user = user            # numeric uid and gid to run as, without capabilities
        self.stats = StatsPage(self.directory / f"{name}.stats")
        self.stderr_path = self.directory / f"{name}.stderr"
        self.popen = None
        self.parent_pipe = None
        self.started = 0.0

    def start(self):
        assert not self.alive(), f"{self.name} already runs"
        self.close_parent_pipe()
        read_end, self.parent_pipe = os.pipe()
        os.set_inheritable(read_end, True)
        command = self.argv + ["--parent-fd", str(read_end)]
        if self.user is not None:
            command = as_user(self.user) + command
        # The page of the last incarnation must not answer for this one.
        self.stats.path.unlink(missing_ok=True)
        with open(self.stderr_path, "ab") as errors:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                          pass_fds=(read_end,), start_new_session=True, preexec_fn=self.before_exec)
        os.close(read_end)
        self.started = time.monotonic()
        return self

    def before_exec(self):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.namespace is not None:
            self.namespace.enter()

    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    @property
    def pid(self):
        return self.popen.pid

    def kill(self):
        """kill -9, reaped."""
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(10)

    def signal(self, number):
        self.popen.send_signal(number)

    def wait_exit(self, seconds=WAIT_SECONDS):
        """The exit code; negative is the signal."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise WaitFailed(f"{self.name} still runs after {seconds} s\n{self.report()}") from None

    def terminate(self, seconds=WAIT_SECONDS):
        """SIGTERM; returns the exit code."""
        if self.alive():
            self.signal(signal.SIGTERM)
        return self.wait_exit(seconds)

    def close_parent_pipe(self):
        """What a child sees when the process that started it is gone."""
        if self.parent_pipe is not None:
            os.close(self.parent_pipe)
            self.parent_pipe = None

    def destroy(self):
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(signal.SIGKILL)
            self.popen.wait(10)
        self.close_parent_pipe()

    def rss_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"{self.name} has no VmRSS")

    def get(self, counter):
        return self.stats.read().get(counter, 0)

    def stderr(self):
        try:
            return self.stderr_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def report(self):
        state = "not started" if self.popen is None else "running" if self.alive() else f"exit {self.popen.returncode}"
        lines = [f"--- {self.name} ({state}): {' '.join(self.argv)}"]
        for path in (self.stderr_path, self.directory / f"{self.name}.log"):
            if path.exists():
                lines += path.read_text(errors="replace").splitlines()[-15:]
        moved = {name: value for name, value in self.stats.read().items() if value}
        lines.append("    " + " ".join(f"{name}={value}" for name, value in sorted(moved.items()))[:6000])
        return "\n".join(lines)


class Node:
    """Name, GUID and LID of a host or unit, as a topology would give them."""

    def __init__(self, name, lid):
        self.name = name
        self.lid = lid
        self.guid = f"{0x0200_0000_0000_0000 + lid:016x}"


class Fabric:
    """One switch and the nodes around it, each a process, in a private state directory.

    link: "shm", "ipc" (zmq over a Unix socket) or a tcp:// endpoint of the switch."""

    def __init__(self, nodes, link="shm", switch_options=(), node_options=(), user=None, directory=None):
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="weft-test-", dir=base))
        if user is not None:
            os.chown(self.directory, user, user)
        self.user = user
        self.link = link
        self.nodes = {name: Node(name, index + 1) for index, name in enumerate(nodes)}
        self.switch_options = list(switch_options)
        self.node_options = list(node_options)
        self.processes = {}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and not isinstance(error, KeyboardInterrupt):
            error.args = (f"{error.args[0] if error.args else ''}\n{self.report()}",) + error.args[1:]
        self.close()

    def close(self):
        for process in self.processes.values():
            process.destroy()
        shutil.rmtree(self.directory, ignore_errors=True)

    def report(self):
        return "\n".join(process.report() for process in self.processes.values())

    def endpoint(self):
        if self.link == "shm":
            return f"shm:{self.directory}/switch.sock"
        if self.link == "ipc":
            return f"ipc://{self.directory}/switch.zmq"
        return self.link

    def add(self, name, argv, namespace=None):
        self.processes[name] = Process(self.directory, name, argv, namespace, self.user)
        return self.processes[name]

    def switch(self, options=(), namespace=None, name="switch"):
        argv = [BIN / "weft-switch", "--name", name, "--dir", self.directory, "--guid", f"{0x0200_0000_0000_ff00:016x}"]
        for node in self.nodes.values():
            argv += ["--node", f"{node.name}={node.guid}:{node.lid}"]
        if self.link != "shm":
            argv += ["--listen", self.endpoint()]
        return self.add(name, argv + self.switch_options + list(options), namespace)

    def node_argv(self, program, name):
        node = self.nodes[name]
        return [BIN / program, "--name", name, "--dir", self.directory, "--guid", node.guid, "--lid", node.lid,
                "--switch", self.endpoint()] + self.node_options

    def host(self, name, units, options=(), namespace=None):
        """units: {unit name: OS interface}, e.g. {"unit": "gen:"}."""
        argv = self.node_argv("weft-host", name)
        for unit, interface in units.items():
            argv += ["--unit", self.nodes[unit].lid, "--os", interface]
        return self.add(name, argv + list(options), namespace)

    def unit(self, name, nic="echo", options=(), namespace=None):
        return self.add(name, self.node_argv("weft-iou", name) + ["--nic", nic] + list(options), namespace)

    def start(self, *names):
        for name in names or self.processes:
            self.processes[name].start()

    def leftovers(self):
        """Sockets that still are in the state directory."""
        return sorted(path.name for path in self.directory.rglob("*") if path.is_socket())


def run_program(program, *options, user=None, seconds=10):
    """Runs a program that is expected to end by itself: (exit code, standard output, standard error)."""
    command = [str(BIN / program)] + [str(option) for option in options]
    if user is not None:
        command = as_user(user) + command

    def before_exec():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
                              preexec_fn=before_exec)
    except subprocess.TimeoutExpired as error:
        raise WaitFailed(f"{' '.join(command)} did not end within {seconds} s; stderr: {error.stderr}") from None
    return done.returncode, done.stdout, done.stderr


def programs_missing(*programs):
    return [program for program in programs if not os.access(BIN / program, os.X_OK)]
