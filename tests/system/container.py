#!/usr/bin/env python3
"""A container for one command: a root of its own in memory, with the system's programs and one directory that it shares with others.
A machine's other processes, its network and its shared memory are not seen from within.

  unshare --user --map-root-user --mount --pid --net --ipc --uts --fork container.py PROC BUILD SHARED COMMAND...

BUILD is seen as /weft, SHARED as /shared. PROC is "own", or "host" for a container in the PID namespace of its caller: unshare then has
no --pid.
"""
import os
import pathlib
import subprocess
import sys

from sandbox import LIBC, MS_BIND, MS_PRIVATE, MS_REC, mount

MNT_DETACH = 2
NOSUID_NODEV = 2 | 4


def make_root(root, proc, build, shared):
    mount("tmpfs", str(root), "tmpfs", NOSUID_NODEV, "size=64m,mode=755")
    for name in ("usr", "etc", "proc", "dev", "tmp", "weft", "shared", "old"):
        (root / name).mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        place = pathlib.Path("/") / name
        if place.is_symlink():
            (root / name).symlink_to(os.readlink(place))
        elif place.is_dir():
            (root / name).mkdir()
            mount(str(place), str(root / name), None, MS_BIND | MS_REC)
    for name in ("null", "zero", "urandom"):
        (root / "dev" / name).touch()
        mount(f"/dev/{name}", str(root / "dev" / name), None, MS_BIND)
    (root / "dev" / "shm").mkdir()
    mount("tmpfs", str(root / "dev" / "shm"), "tmpfs", NOSUID_NODEV, "size=64m,mode=1777")
    if proc == "own":
        mount("proc", str(root / "proc"), "proc", NOSUID_NODEV)
    else:
        mount("/proc", str(root / "proc"), None, MS_BIND | MS_REC)
    for source, name in (("/usr", "usr"), ("/etc", "etc"), (build, "weft"), (shared, "shared")):
        mount(source, str(root / name), None, MS_BIND | MS_REC)


def main():
    proc, build, shared, *command = sys.argv[1:]
    root = pathlib.Path(shared).parent / f"root-{pathlib.Path(shared).name}"
    root.mkdir(exist_ok=True)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    make_root(root, proc, build, shared)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "old"], check=True)
    os.chdir("/")
    if LIBC.umount2(b"/old", MNT_DETACH) != 0:
        sys.exit("container.py: /old stays")
    os.execvp("setpriv", ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--", *command])


if __name__ == "__main__":
    main()
