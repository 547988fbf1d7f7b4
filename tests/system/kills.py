"""Kills of host, unit and switch under load, and what must hold then (issue 2): the others notice within 2 s, the session
resumes within 3 s of the restart, no frame comes back damaged or twice, the death of a switch loses none, memory does not
grow, the TAP keeps its index and addresses. Used by test_kill.py (5 of each) and scripts/soak (50)."""
import random
import time

import frames
import harness
import netns

BACK_OFF_SECONDS = 0.05
HOST_MAC = "02:00:00:00:77:99"
TAP_ADDRESS = "10.77.0.2/24"
SESSION_LOST = r"(.*\.)?lost_(silence|qp_error|violation|gap|peer_left|port_down|replaced|forgotten|no_memory)"
LINK_UP = r"link\.up"
PEER_GONE = r"port\.\d+\.link\.peer_gone"
PATIENCE_SECONDS = 60.0  # an unanswered frame is not taken for lost
GROWTH_BYTES_MAX = 1 << 20


class KillRun:
    """A fabric under echo traffic. `tap`: the host sits on a TAP of a namespace (root), else on a Unix socket."""

    def __init__(self, link="shm", tap=False, seed=None):
        self.dice = random.Random(seed)
        self.namespace = None
        self.fabric = harness.Fabric(["host", "unit"], link=link)
        interface = f"unix:{self.fabric.directory}/frames.sock"
        if tap:
            self.namespace = netns.Namespace("kill")
            self.namespace.add_tap("wtap0", TAP_ADDRESS)
            self.namespace.ip("link", "set", "wtap0", "address", HOST_MAC)
            interface = "tap:wtap0"
        self.switch = self.fabric.switch()
        self.unit = self.fabric.unit("unit", "echo")
        self.host = self.fabric.host("host", {"unit": interface}, ["--mac", HOST_MAC], self.namespace)
        self.fabric.start("switch", "unit", "host")
        stream = frames.PacketStream(self.namespace, "wtap0") if tap else frames.FrameStream(
            self.fabric.directory / "frames.sock")
        self.traffic = frames.EchoTraffic(stream, mac=bytes.fromhex(HOST_MAC.replace(":", "")), give_up_seconds=PATIENCE_SECONDS)
        self.tap_index = self.namespace.interface("wtap0")["ifindex"] if tap else None
        self.rss = {"host": [], "unit": [], "switch": []}  # after each kill of another process
        self.resume_seconds = {"host": [], "unit": [], "switch": []}
        self.notice_seconds = {"host": [], "unit": [], "switch": []}

    def __enter__(self):
        try:
            self.pump_until(lambda good: good > 0, "the first echo answer", harness.WAIT_SECONDS)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.traffic.stream.close()
        try:
            self.fabric.__exit__(kind, error, trace)
        finally:
            if self.namespace is not None:
                self.namespace.delete()

    def pump_until(self, condition, what, seconds):
        """Traffic until `condition(good answers so far)`; the seconds it took."""
        start = time.monotonic()
        good = 0
        while True:
            good += self.traffic.step()
            took = time.monotonic() - start
            if condition(good):
                return took
            if took > seconds:
                raise harness.WaitFailed(f"not within {seconds} s: {what}; traffic: {self.traffic}")

    def noticed(self, victim):
        """A function that tells whether all others have noticed the death of `victim` since now."""
        if victim == "switch":
            return lambda: (self.host.stats.total(LINK_UP), self.unit.stats.total(LINK_UP)) == (0, 0)
        peer = self.unit if victim == "host" else self.host
        lost = peer.stats.total(SESSION_LOST)
        gone = self.switch.stats.total(PEER_GONE)
        return lambda: peer.stats.total(SESSION_LOST) > lost and self.switch.stats.total(PEER_GONE) > gone

    def kill(self, victim, wait_notice):
        """One kill at a random phase under load, restart, and the checks that belong to it."""
        process = self.fabric.processes[victim]
        self.pump_until(lambda good: good > 50, "traffic before the kill", harness.WAIT_SECONDS)
        self.traffic.run(self.dice.uniform(0.0, 0.1))
        noticed = self.noticed(victim)
        process.kill()
        if wait_notice:
            self.notice_seconds[victim].append(
                self.pump_until(lambda _: noticed(), f"the others notice the death of {victim}",
                                harness.NOTICE_SECONDS))
        else:
            self.traffic.run(BACK_OFF_SECONDS)
        process.start()
        self.resume(victim)
        self.check_after(victim)

    def resume(self, victim):
        """New frames pass within 3 s. What is under way while an endnode dies may be lost, and must not fill the window."""
        if victim != "switch":
            self.traffic.give_up_before(time.monotonic())
            self.traffic.give_up_seconds = 0.3
        fresh = self.traffic.sequence
        self.resume_seconds[victim].append(
            self.pump_until(lambda _: self.traffic.highest >= fresh, f"frames pass again after {victim} came back",
                            harness.RESUME_SECONDS))
        self.traffic.give_up_seconds = PATIENCE_SECONDS

    def check_after(self, victim):
        traffic = self.traffic
        assert traffic.corrupted == 0, f"a frame came back damaged after a kill of {victim}: {traffic}"
        assert traffic.duplicated == 0, f"a frame came back twice after a kill of {victim}: {traffic}"
        if self.namespace is not None:
            tap = self.namespace.interface("wtap0")
            assert tap and tap["ifindex"] == self.tap_index, f"the TAP disappeared at a kill of {victim}"
            addresses = [f"{entry['local']}/{entry['prefixlen']}" for entry in tap["addr_info"]]
            assert TAP_ADDRESS in addresses, f"the TAP lost its address at a kill of {victim}: {addresses}"
        for name, process in self.fabric.processes.items():
            assert process.alive(), f"{name} ended by itself at a kill of {victim}"
            if name != victim:
                self.rss[name].append(process.rss_bytes())

    def kills(self, victim, count, progress=None):
        """`count` kills of one process; every second one waits until the others have noticed."""
        self.traffic.drain(2.0)
        self.traffic.give_up_before(time.monotonic())
        lost = self.traffic.lost
        for history in self.rss.values():
            history.clear()
        for index in range(count):
            self.kill(victim, wait_notice=index % 2 == 0)
            if progress:
                progress(victim, index + 1)
        if victim == "switch":
            self.traffic.drain(10.0)
            assert self.traffic.lost <= lost and not self.traffic.waiting, f"the death of a switch lost frames: {self.traffic}"

    def check_memory(self, after_first, after_last):
        """RSS after the last kill is at most that after an early one plus 1 MiB (decisions 5.3)."""
        for name, history in self.rss.items():
            if len(history) >= after_last > after_first:
                grown = history[after_last - 1] - history[after_first - 1]
                assert grown <= GROWTH_BYTES_MAX, f"{name} grew by {grown} bytes: {history}"

    def summary(self):
        def worst(table):
            return ", ".join(f"{name} {max(values):.2f}" for name, values in table.items() if values)
        return (f"{self.traffic}; slowest notice (s): {worst(self.notice_seconds)}; slowest resume (s): "
                f"{worst(self.resume_seconds)}")
