#!/usr/bin/env python3
"""Runs rdma-core's own tests (package python3-pyverbs), unmodified, on a Weft device.

  scripts/pyverbs              every test file; exit 1 if a test fails or a file crashes
  scripts/pyverbs NAME...      the files test_NAME
  scripts/pyverbs --skips      also each reason to skip, with how many tests give it

Prints what failed, then `pyverbs ok N failed N skipped N`. Each file runs in a process and a fabric of its own, so that a crash
costs one file: the test that ran then, and those after it, count as failed.
"""
import argparse
import collections
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from stock import as_user, reachable_build, NOBODY, ROOT

INSTALLED = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the distribution's: another one in PATH has no pyverbs
FILE_SECONDS = 300
# Tests of other vendors' devices, which no other device can run.
FOREIGN = re.compile(r"test_(mlx5|efa|cuda)")
RESULT = re.compile(r"^test_\w+ \(tests\.([\w.]+)\)(?:\n[^\n]*)?? \.\.\. "
                    r"[^\n]*?(ok|FAIL|ERROR|skipped (?:'[^\n]*'|\"[^\n]*\"))$", re.MULTILINE)
STARTED = re.compile(r"^test_\w+ \(tests\.([\w.]+)\)", re.MULTILINE)


def unpack(target):
    """A copy of the installed tests, uncompressed, laid out as a package."""
    package = target / "tests"
    package.mkdir(parents=True)
    for path in sorted(INSTALLED.iterdir()):
        if path.suffix == ".gz":
            (package / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, package / path.name)


def run_file(weft, tests, name, directory):
    """Outcomes of one file: a list of (test, outcome)."""
    (directory / "run").mkdir(mode=0o700)
    if os.geteuid() == 0:
        for path in (directory, directory / "run"):
            os.chown(path, NOBODY, NOBODY)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory / "run"), "LANG": "C.UTF-8",
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    command = [str(weft), "run", "--", PYTHON, str(tests / "tests" / "run_tests.py"), "-v", "-k", f"tests.{name}."]
    try:
        done = subprocess.run(as_user(command), cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=FILE_SECONDS)
        text, status = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        text, status = (late.stdout or b"").decode(errors="replace"), "no end"
    (directory / "output.txt").write_text(text)
    outcomes = RESULT.findall(text)
    if status not in (0, 1):
        known = {test for test, _ in outcomes}
        running = [test for test in STARTED.findall(text) if test not in known]
        outcomes += [(test, f"CRASH ({status})") for test in (running or [name])[-1:]]
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--skips", action="store_true", help="print the reasons for which tests were skipped")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build directory")
    options = parser.parse_args()
    if not INSTALLED.exists():
        if os.geteuid() != 0:
            sys.exit("pyverbs: the package python3-pyverbs is missing; install it, or run this as root")
        subprocess.run(["apt-get", "install", "-y", "-q", "python3-pyverbs"], stdout=subprocess.DEVNULL, check=True,
                       env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-pyverbs-"))
    scratch.chmod(0o755)
    weft = reachable_build(options.build.resolve(), scratch)
    unpack(scratch / "source")
    names = sorted(path.stem for path in (scratch / "source" / "tests").glob("test_*.py") if not FOREIGN.match(path.name))
    if options.names:
        names = [name for name in names if name.removeprefix("test_") in options.names]
    every = []
    for name in names:
        directory = scratch / name
        directory.mkdir()
        outcomes = run_file(weft, scratch / "source", name, directory)
        every += outcomes
        counts = collections.Counter(result.split()[0] for _, result in outcomes)
        print(f"{name:<28} " + ", ".join(f"{word} {count}" for word, count in sorted(counts.items())), flush=True)
    bad = [(test, result) for test, result in every if result.split()[0] in ("FAIL", "ERROR", "CRASH")]
    for test, result in bad:
        print(f"  {result}: {test}")
    skipped = [result for _, result in every if result.startswith("skipped")]
    if options.skips:
        for reason, count in collections.Counter(skipped).most_common():
            print(f"  {count:>3} {reason}")
    print(f"pyverbs ok {sum(result == 'ok' for _, result in every)} failed {len(bad)} skipped {len(skipped)}")
    if not bad:
        shutil.rmtree(scratch)
    else:
        print(f"outputs: {scratch}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
