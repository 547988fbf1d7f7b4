"""Runs other programs for measurements, and finds processes that disturb them."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

NOISE_SECONDS = 0.5
NOISE_CPU_SHARE = 0.30  # of one core over NOISE_SECONDS; a process above this disturbs the measurement


class Failed(Exception):
    """A measurement failed; the text gives the reason."""


def run(arguments, timeout=60):
    """Standard output of a command that must succeed."""
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{pathlib.Path(str(arguments[0])).name}: no result within {timeout} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Failed(f"{' '.join(str(a) for a in arguments)}: exit {done.returncode}: {last}")
    return done.stdout


@contextlib.contextmanager
def process(arguments, ready=None, log=None):
    """Runs a process for the duration of a block; waits for the line `ready` on its output."""
    out = open(log, "ab") if log else subprocess.PIPE
    try:
        # vde_switch ends when its input ends, so it gets a pipe.
        child = subprocess.Popen([str(a) for a in arguments], stdin=subprocess.PIPE, stdout=out,
                                 stderr=subprocess.STDOUT)
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        if ready:
            line = child.stdout.readline().decode().strip()
            if line != ready:
                raise Failed(f"{pathlib.Path(str(arguments[0])).name}: {line or 'ended at once'}")
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(3)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if log:
            out.close()


def wait_until(what, seconds, test):
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def cpu_ticks():
    """pid -> (ticks used, name) of every process but this one."""
    ticks = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = (entry / "stat").read_text()
                name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
                ticks[int(entry.name)] = (int(rest[11]) + int(rest[12]), name)
    return ticks


def busy_processes():
    """Processes that use the CPU now: [(name, pid, share of a core)]."""
    before = cpu_ticks()
    time.sleep(NOISE_SECONDS)
    per_second = os.sysconf("SC_CLK_TCK") * NOISE_SECONDS
    shares = [(name, pid, (used - before[pid][0]) / per_second)
              for pid, (used, name) in cpu_ticks().items() if pid in before]
    return sorted((s for s in shares if s[2] > NOISE_CPU_SHARE), key=lambda s: -s[2])
