"""Network namespaces, veths and TAPs of a system test. All names carry the pid of the test; what a killed test left behind
is removed by the next one."""
import atexit
import ctypes
import json
import os
import pathlib
import re
import subprocess
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
        raise unittest.SkipTest("no /dev/net/tun here")


def require_netem(namespace):
    """Skips unless the kernel has the netem queue discipline."""
    if "Error" in subprocess.run(["ip", "netns", "exec", namespace.name, "tc", "qdisc", "add", "dev", "lo", "root", "netem",
                                  "delay", "1ms"], capture_output=True, text=True).stderr:
        raise unittest.SkipTest("the kernel has no netem (sch_netem)")
    run("ip", "netns", "exec", namespace.name, "tc", "qdisc", "del", "dev", "lo", "root")


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

    def ip(self, *words):
        return run("ip", "-n", self.name, *words)

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

    def delete(self):
        if self in _made:
            _made.remove(self)
            os.close(self.fd)
            run("ip", "netns", "delete", self.name, check=False)


def connect(left, left_name, left_address, right, right_name, right_address):
    """A veth pair between two namespaces, with addresses, up."""
    left.ip("link", "add", left_name, "type", "veth", "peer", "name", right_name, "netns", right.name)
    for namespace, name, address in ((left, left_name, left_address), (right, right_name, right_address)):
        namespace.ip("addr", "add", address, "dev", name)
        namespace.ip("link", "set", name, "up")


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
