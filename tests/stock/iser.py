#!/usr/bin/env python3
"""A stock tgtd and the programs of libiscsi (its tools, qemu-io) over iSER: what is read and written is compared with the files behind it.

  iser.py DIRECTORY PORT

tgtd takes commands of root only, so this runs in a user namespace of its own (unshare -Ur). Over iSER it lets an initiator
in when its address and its name are both bound to the target; without the name it says "target not found". Where STOCK_OTHER_SIDE is set, the target is on the fabric that it names.

Where STOCK_LOSSES is set cells are lost, and tgtd closes a connection when the acknowledgement of its last answer of a login is
(docs/rdma_cm.md). It says so then, and what the initiator did is done again; any other failure is one.
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

TARGET = "iqn.2026-01.org.example:disk"
INITIATORS = ("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-inq", "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-readcapacity16",
              "iqn.2008-11.org.linux-kvm")
DISK_BYTES = 8 << 20
STEP_BYTES = 64 << 10
CLOSED_AT_LOGIN = "non-login pdu during login phase"
LOGINS = 5  # of an initiator at most, where cells are lost


class Failed(Exception):
    """Why a step did not do what it should."""


def run(*command):
    """Its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Logins:
    """Initiators of one target, each of which logs in anew; `said` is the file of what the target says."""

    def __init__(self, said):
        self.said = said
        self.repeated = 0

    def do(self, step, *words):
        """What `step` gives; done again when the target has closed for a lost acknowledgement."""
        for attempt in range(LOGINS):
            before = self.said.stat().st_size
            try:
                return step(*words)
            except Failed:
                closed = CLOSED_AT_LOGIN in self.said.read_text(errors="replace")[before:]
                if "STOCK_LOSSES" not in os.environ or not closed or attempt + 1 == LOGINS:
                    raise
                self.repeated += 1
        return None


def exercise(url, word):
    """Lets qemu-io write, or read and verify, the whole disk. It must have said so of each step.

    With the address sanitizer's runtime before it qemu-io hangs in exit(), on any device or none, when it has asked libdl for a
    symbol that is not there, as it does: libp11-kit's constructor leaves libc's lock of locales one reader short, and its destructor
    waits for that reader. It ends by a signal then, and says what it says to a terminal, so that nothing of it waits in a buffer."""
    sanitized = "ASAN_OPTIONS" in os.environ
    commands = [f"{word} -P {step % 255 + 1} {step * STEP_BYTES} {STEP_BYTES}" for step in range(DISK_BYTES // STEP_BYTES)]
    commands += [f"sigraise {signal.SIGTERM.value}"] if sanitized else []
    ours, terminal = os.openpty()
    words = ["timeout", "60", "qemu-io", "-f", "raw", *(part for command in commands for part in ("-c", command)), url]
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
    os.close(terminal)
    said = b""
    with contextlib.suppress(OSError):  # EIO: nobody has the terminal any more
        while more := os.read(ours, 4096):
            said += more
    os.close(ours)
    status, text = child.wait(), said.decode(errors="replace")
    steps = len(re.findall(rf"^(?:read|wrote) {STEP_BYTES}/{STEP_BYTES} bytes", text, re.MULTILINE))
    if status != (-signal.SIGTERM if sanitized else 0) or steps != DISK_BYTES // STEP_BYTES or "fail" in text.lower():
        raise Failed(f"qemu-io {word}: status {status}, {steps} steps: {text[-500:]}")


def manage(mode, operation, *more):
    return run("tgtadm", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1", *more)


def wait_for_target():
    deadline = time.monotonic() + 20
    while subprocess.run(["tgtadm", "--lld", "iser", "--mode", "sys", "--op", "show"], capture_output=True).returncode != 0:
        if time.monotonic() > deadline:
            raise Failed("tgtd does not answer")
        time.sleep(0.1)


def compare(directory, url, logins):
    first, second = directory / "disk1", directory / "disk2"
    if "VIRTUAL-DISK" not in logins.do(run, "iscsi-inq", f"{url}/1"):
        raise Failed("iscsi-inq names no disk")
    if f"Total size:{DISK_BYTES}" not in logins.do(run, "iscsi-readcapacity16", f"{url}/1"):
        raise Failed("iscsi-readcapacity16 says another size")

    # Requests of 64 KiB: with those of 2 MiB, which qemu-img makes, libiscsi ends with ENOMEM; no call of verbs was refused.
    logins.do(exercise, f"{url}/2", "write")
    wanted = b"".join(bytes([step % 255 + 1]) * STEP_BYTES for step in range(DISK_BYTES // STEP_BYTES))
    if second.read_bytes() != wanted:
        raise Failed("what qemu-io has written is not on the disk")
    first.write_bytes(wanted)
    logins.do(exercise, f"{url}/1", "read")
    print(f"{DISK_BYTES} bytes read and written over iSER, equal; {logins.repeated} logins again")


def main():
    directory, port = pathlib.Path(sys.argv[1]), sys.argv[2]
    os.environ["TGT_IPC_SOCKET"] = str(directory / "tgt")
    (directory / "disk1").write_bytes(os.urandom(DISK_BYTES))
    (directory / "disk2").write_bytes(bytes(DISK_BYTES))
    fabric = os.environ.get("STOCK_OTHER_SIDE", os.environ["WEFT_FABRIC"])
    said = directory / "tgtd.txt"
    with said.open("wb") as output:
        target = subprocess.Popen(["tgtd", "-f", "--iser", f"port={port}"], stdout=output, stderr=output,
                                  env={**os.environ, "WEFT_FABRIC": fabric})
    try:
        wait_for_target()
        manage("target", "new", "-T", TARGET)
        for lun in ("1", "2"):
            manage("logicalunit", "new", "--lun", lun, "-b", str(directory / f"disk{lun}"))
        manage("target", "bind", "-I", "ALL")
        for initiator in INITIATORS:
            manage("target", "bind", "-Q", initiator)
        compare(directory, f"iser://127.0.0.1:{port}/{TARGET}", Logins(said))
    except Failed as failed:
        sys.exit(str(failed))
    finally:
        target.kill()
        target.wait()


if __name__ == "__main__":
    main()
