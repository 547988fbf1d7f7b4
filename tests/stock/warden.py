"""Runs a function in a child process and sees to it that nothing the child has started outlives it.

The stock programs spin; one that is left behind takes a core for ever. They stand in process groups and sessions of their own, some
are started by launchers that have ended, and a Python program that is killed runs no `finally`. So the work is done by a child, and
its parent adopts whatever loses its parent below it, waits, and kills what is left in the end: after a signal, or however the child
has ended. If the parent itself is killed, the child gets SIGTERM and clears up behind itself.
"""
import ctypes
import os
import pathlib
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_SECONDS = 5  # for what ends by itself a moment after the work


def prctl(option, value):
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        sys.exit(f"prctl({option}): {os.strerror(ctypes.get_errno())}")


def below(ancestor):
    """The numbers of all processes that descend from this one and have not ended."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended meanwhile
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, news = set(), {ancestor}
    while news:
        news = {number for number, parent in parents.items() if parent in news} - found
        found |= news
    return found


def reap():
    """Takes the statuses of adopted processes that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def end_all(seconds):
    """Until no process is below this one: those that are still there after so many seconds are killed."""
    deadline = time.monotonic() + seconds
    while left := below(os.getpid()):
        if time.monotonic() > deadline:
            for number in left:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        reap()
        time.sleep(0.02)
    reap()


def work_as_child(work):
    """Never returns."""
    for number in SIGNALS:
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    status = 1
    try:
        status = work()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        else:
            status = ended.code or 0
    except BaseException:  # noqa: B902  (a child of fork() must not go on as its parent)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def supervise(work):
    """The exit status of `work`; 128 and the number of the signal that has ended this."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    caught = []
    child = None

    def stop(number, _):
        """The child clears up; at the second signal it has no more time for that."""
        caught.append(number)
        if child:
            os.kill(child, signal.SIGTERM if len(caught) == 1 else signal.SIGKILL)

    for number in SIGNALS:
        signal.signal(number, stop)
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    child = os.fork()
    if child == 0:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        work_as_child(work)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    status = None
    while status is None:
        number, how = os.waitpid(-1, 0)
        if number == child:
            status = os.waitstatus_to_exitcode(how)
    child = None
    end_all(0 if caught or status < 0 else GRACE_SECONDS)
    return 128 + caught[0] if caught else 128 - status if status < 0 else status
