"""Network namespaces, veths and TAPs of a system test. All names carry the pid of the test; what a killed test left behind
is removed by the next one."""
import atexit
import ctypes
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

CLONE_NEWNET = 0x4000_0000
PREFIX = "weft-test-"
LIBC = ctypes.CDLL(None, use_errno=True)
_made = []
_serial = 0


def run(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def require_root():
    """Skips the calling test unless it may make namespaces and interfaces."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root (network namespaces, TAP)")
    name = Namespace.next_name("probe")
    try:
        run("ip", "netns", "add", name)
    except OSError as error:
        raise unittest.SkipTest(f"may not make network namespaces here: {error}") from None
    run("ip", "netns", "delete", name, check=False)
    if not os.path.exists("/dev/net/tun"):
        raise unittest.SkipTest("no /dev/net/tun here; needs the kernel's module tun")


class Namespace:
    """A network namespace; removed by delete(), at exit, or by the next run."""

    @staticmethod
    def next_name(role):
        global _serial
        _serial += 1
        return f"{PREFIX}{os.getpid()}-{_serial}{role}"

    def __init__(self, role):
        self.name = self.next_name(role)
        _made.append(self)
        run("ip", "netns", "add", self.name)
        self.fd = os.open(f"/var/run/netns/{self.name}", os.O_RDONLY | os.O_CLOEXEC)
        self.ip("link", "set", "lo", "up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()

    def enter(self):
        """Moves the calling process (a child before exec) into the namespace."""
        if LIBC.setns(self.fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    def ip(self, *words, check=True):
        return run("ip", "-n", self.name, *words, check=check)

    def exec(self, *command, check=True):
        return run("ip", "netns", "exec", self.name, *command, check=check)

    def interface(self, name):
        """What `ip -json addr` says about an interface; None when there is none."""
        text = run("ip", "-n", self.name, "-json", "addr", "show", "dev", name, check=False)
        found = [entry for entry in json.loads(text or "[]") if entry]
        return found[0] if found else None

    def add_tap(self, name, address=None, mtu=1500):
        """A persistent TAP, so that it survives whoever attaches to it (decisions 2.23)."""
        self.ip("tuntap", "add", "dev", name, "mode", "tap", "vnet_hdr")
        self.exec("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1", check=False)
        self.ip("link", "set", name, "mtu", str(mtu), "up")
        if address:
            self.ip("addr", "add", address, "dev", name)

    def socket(self, *arguments):
        """A socket of the namespace for the test itself."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.enter()
            return socket.socket(*arguments)
        finally:
            if LIBC.setns(home, CLONE_NEWNET) != 0:
                os._exit(1)  # a test in the wrong namespace must not go on
            os.close(home)

    def delete(self):
        if self in _made:
            _made.remove(self)
            os.close(self.fd)
            run("ip", "netns", "delete", self.name, check=False)


def connect(left, left_name, left_address, right, right_name, right_address):
    """A veth pair between two namespaces, with addresses, up. Every frame leaves complete and no longer than the MTU, so
    that a wire of user space can carry it too."""
    left.ip("link", "add", left_name, "type", "veth", "peer", "name", right_name, "netns", right.name)
    for namespace, name, address in ((left, left_name, left_address), (right, right_name, right_address)):
        namespace.exec("ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        if address:
            namespace.ip("addr", "add", address, "dev", name)
        namespace.ip("link", "set", name, "up")


class LossyCable:
    """Two namespaces joined with delay and loss in each direction: by netem where the kernel has it, else by a process
    in a namespace of its own between them (lossy_wire.py)."""

    def __init__(self, left, left_name, left_address, right, right_name, right_address, delay_ms, loss_percent, seed):
        self.middle = None
        self.relay = None
        if kernel_has_netem():
            self.kind = "netem"
            connect(left, left_name, left_address, right, right_name, right_address)
            for namespace, name in ((left, left_name), (right, right_name)):
                namespace.exec("tc", "qdisc", "add", "dev", name, "root", "netem", "delay", f"{delay_ms}ms", "loss",
                               f"{loss_percent}%")
            return
        self.kind = "lossy_wire.py"
        self.middle = Namespace("wire")
        self.middle.exec("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1",
                         check=False)
        connect(left, left_name, left_address, self.middle, "left", None)
        connect(right, right_name, right_address, self.middle, "right", None)
        script = pathlib.Path(__file__).with_name("lossy_wire.py")
        self.relay = subprocess.Popen([sys.executable, "-B", str(script), "left", "right", str(delay_ms),
                                       str(loss_percent), str(seed)], stdout=subprocess.PIPE,
                                      preexec_fn=self.middle.enter)
        if self.relay.stdout.readline() != b"ready\n":
            raise OSError("lossy_wire.py does not start")

    def close(self):
        if self.relay is not None:
            self.relay.kill()
            self.relay.wait(10)
            self.relay.stdout.close()
        if self.middle is not None:
            self.middle.delete()


def kernel_has_netem():
    with Namespace("netem") as probe:
        text = probe.exec("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms", check=False)
        return "netem" in probe.exec("tc", "qdisc", "show", "dev", "lo") and not text


def remove_all():
    for namespace in list(_made):
        namespace.delete()


def remove_stale():
    """Namespaces of test processes that are gone."""
    folder = pathlib.Path("/var/run/netns")
    if os.geteuid() != 0 or not folder.is_dir():
        return
    for entry in folder.iterdir():
        match = re.fullmatch(rf"{PREFIX}(\d+)-\d+\w*", entry.name)
        if match and not os.path.exists(f"/proc/{match.group(1)}"):
            run("ip", "netns", "delete", entry.name, check=False)


atexit.register(remove_all)
