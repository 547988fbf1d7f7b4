#!/usr/bin/env python3
"""A stock tgtd and the programs of libiscsi (its tools, qemu-io) over iSER: what is read and written is compared with the files behind it.

  iser.py DIRECTORY PORT

tgtd takes commands of root only, so this runs in a user namespace of its own (unshare -Ur). Over iSER it lets an initiator
in when its address and its name are both bound to the target; without the name it says "target not found".
"""
import os
import pathlib
import subprocess
import sys
import time

TARGET = "iqn.2026-01.org.example:disk"
INITIATORS = ("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-inq", "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-readcapacity16",
              "iqn.2008-11.org.linux-kvm")
DISK_BYTES = 8 << 20
STEP_BYTES = 64 << 10


def run(*command):
    """Its standard output; ends all of this when the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def manage(mode, operation, *more):
    return run("tgtadm", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1", *more)


def wait_for_target():
    deadline = time.monotonic() + 20
    while subprocess.run(["tgtadm", "--lld", "iser", "--mode", "sys", "--op", "show"], capture_output=True).returncode != 0:
        if time.monotonic() > deadline:
            sys.exit("tgtd does not answer")
        time.sleep(0.1)


def compare(directory, url):
    first, second = directory / "disk1", directory / "disk2"
    if "VIRTUAL-DISK" not in run("iscsi-inq", f"{url}/1"):
        sys.exit("iscsi-inq names no disk")
    if f"Total size:{DISK_BYTES}" not in run("iscsi-readcapacity16", f"{url}/1"):
        sys.exit("iscsi-readcapacity16 says another size")

    # Requests of 64 KiB: with those of 2 MiB, which qemu-img makes, libiscsi ends with ENOMEM; no call of verbs was refused.
    writes, reads = [], []
    for step in range(DISK_BYTES // STEP_BYTES):
        place = f"-P {step % 255 + 1} {step * STEP_BYTES} {STEP_BYTES}"
        writes += ["-c", f"write {place}"]
        reads += ["-c", f"read {place}"]
    run("qemu-io", "-f", "raw", *writes, f"{url}/2")
    wanted = b"".join(bytes([step % 255 + 1]) * STEP_BYTES for step in range(DISK_BYTES // STEP_BYTES))
    if second.read_bytes() != wanted:
        sys.exit("what qemu-io has written is not on the disk")
    first.write_bytes(wanted)
    if "fail" in run("qemu-io", "-f", "raw", *reads, f"{url}/1").lower():
        sys.exit("what qemu-io has read is not what the disk has")
    print(f"{DISK_BYTES} bytes read and written over iSER, equal")


def main():
    directory, port = pathlib.Path(sys.argv[1]), sys.argv[2]
    os.environ["TGT_IPC_SOCKET"] = str(directory / "tgt")
    (directory / "disk1").write_bytes(os.urandom(DISK_BYTES))
    (directory / "disk2").write_bytes(bytes(DISK_BYTES))
    with (directory / "tgtd.txt").open("wb") as said:
        target = subprocess.Popen(["tgtd", "-f", "--iser", f"port={port}"], stdout=said, stderr=said)
    try:
        wait_for_target()
        manage("target", "new", "-T", TARGET)
        for lun in ("1", "2"):
            manage("logicalunit", "new", "--lun", lun, "-b", str(directory / f"disk{lun}"))
        manage("target", "bind", "-I", "ALL")
        for initiator in INITIATORS:
            manage("target", "bind", "-Q", initiator)
        compare(directory, f"iser://127.0.0.1:{port}/{TARGET}")
    finally:
        target.kill()
        target.wait()


if __name__ == "__main__":
    main()
