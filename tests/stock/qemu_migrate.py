#!/usr/bin/env python3
"""Migrates a guest between two stock QEMU processes over rdma: and compares its memory on both sides.

  qemu_migrate.py DIRECTORY PORT [pin]

Where STOCK_OTHER_SIDE is set, the destination is on the fabric that it names. The guest has firmware and no disk. It runs for a moment, is stopped, migrated and compared byte by byte; then it must go on
at the other side. With `pin` all its memory is registered at once (rdma-pin-all).
"""
import filecmp
import json
import os
import socket
import subprocess
import sys
import time

GUEST_MIB = 32
SECONDS = 90


class Guest:
    """One QEMU process and its QMP socket."""

    def __init__(self, directory, name, *more, fabric=None):
        self.path = os.path.join(directory, f"{name}.qmp")
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-m", f"{GUEST_MIB}", "-nodefaults", "-display", "none",
             "-qmp", f"unix:{self.path},server=on,wait=off", *more],
            env={**os.environ, "WEFT_FABRIC": fabric} if fabric else None)
        self.lines = self.connect()
        self.ask("qmp_capabilities")

    def connect(self):
        deadline = time.monotonic() + 20
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(self.path)
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    sys.exit(f"no QMP socket at {self.path}")
                time.sleep(0.05)
        self.socket.settimeout(SECONDS)
        lines = self.socket.makefile("r")
        lines.readline()  # the greeting
        return lines

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            line = self.lines.readline()
            if not line:
                sys.exit(f"{command}: QEMU has ended")
            answer = json.loads(line)
            if "error" in answer:
                sys.exit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def migrate(source, port):
    source.ask("migrate", uri=f"rdma:127.0.0.1:{port}")
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        state = source.ask("query-migrate")
        if state["status"] == "completed":
            return state["ram"]["transferred"]
        if state["status"] in ("failed", "cancelled"):
            sys.exit(f"migration {state['status']}: {state.get('error-desc', 'no reason given')}")
        time.sleep(0.1)
    sys.exit("the migration did not end")


def main():
    directory, port, pin = sys.argv[1], int(sys.argv[2]), "pin" in sys.argv[3:]
    guests = []
    try:
        guests.append(Guest(directory, "destination", "-incoming", "defer", fabric=os.environ.get("STOCK_OTHER_SIDE")))
        guests.append(Guest(directory, "source"))
        destination, source = guests
        for guest in guests:
            guest.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin}])
        destination.ask("migrate-incoming", uri=f"rdma:0.0.0.0:{port}")
        time.sleep(1)
        source.ask("stop")
        moved = migrate(source, port)
        dumps = []
        for guest in (source, destination):
            dumps.append(f"{guest.path}.memory")
            guest.ask("pmemsave", val=0, size=GUEST_MIB << 20, filename=dumps[-1])
        if not filecmp.cmp(*dumps, shallow=False):
            sys.exit("the guest's memory differs")
        destination.ask("cont")
        if not destination.ask("query-status")["running"]:
            sys.exit("the guest does not run at its destination")
        print(f"migrated {moved} bytes, memory equal")
    finally:
        for guest in guests:
            guest.end()


if __name__ == "__main__":
    main()
