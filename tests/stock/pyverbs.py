#!/usr/bin/env python3
"""Runs rdma-core's own tests (package python3-pyverbs), unmodified, on a Weft device.

  scripts/pyverbs                  every test file; exit 1 if a test fails or a file crashes
  scripts/pyverbs NAME...          the files test_NAME
  scripts/pyverbs --direct         as weft run --direct; a test's queue pairs are in one process, whose cells the switch loops back
  scripts/pyverbs --skips          also each reason to skip, with how many tests give it
  scripts/pyverbs --newest [DIR]   the tests of rdma-core's newest source instead, with the pyverbs and librdmacm built of it: of the
                                   checkout DIR, else of one that is cloned into build/rdma-core. Also cmake, ninja, a C compiler,
                                   cython3 and the headers of libnl, libudev and python3 are needed then

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

from stock import as_user, needs_build, reachable_build, NOBODY, ROOT

INSTALLED = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the distribution's: another one in PATH has no pyverbs
FILE_SECONDS = 300
SOURCE = "https://github.com/linux-rdma/rdma-core"
BUILD_PACKAGES = ("cmake", "ninja-build", "gcc", "pkg-config", "cython3", "python3-dev", "libnl-3-dev", "libnl-route-3-dev", "libudev-dev")
# What the newest tests import of vendors' parts and never use on another vendor's device: classes by any name, so that
# libmlx5 and libefa need not be built.
VENDORS = '''import importlib.abc
import importlib.machinery
import sys
import types


class Any(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        ours = name.startswith("pyverbs.providers.")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec):
        return Any(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
'''
# The newest tests ask `rdma link show -j` for the network interface of the device, which asks the kernel. It knows none, and the
# tests look into sysfs then.
RDMA_TOOL = "#!/bin/sh\necho '[]'\n"
# Tests of other vendors' devices, which no other device can run.
FOREIGN = re.compile(r"test_(mlx5|efa|cuda)")
# A test may print lines of its own before its outcome.
RESULT = re.compile(r"^test_\w+ \(tests\.([\w.]+)\)(?:\n[^\n]*)?? \.\.\. (?:(?!^test_\w+ \()[\s\S])*?"
                    r"(ok|FAIL|ERROR|skipped (?:'[^\n]*'|\"[^\n]*\"))$", re.MULTILINE)
STARTED = re.compile(r"^test_\w+ \(tests\.([\w.]+)\)", re.MULTILINE)


class Tests:
    """Where the tests lie, laid out as a package, and what they need around them."""

    def __init__(self, directory):
        self.directory = directory
        self.environment = {}

    def names(self):
        return sorted(path.stem for path in (self.directory / "tests").glob("test_*.py"))


def install(packages):
    """Those that are missing, as root."""
    missing = [name for name in packages
               if subprocess.run(["dpkg", "-s", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode]
    if missing and os.geteuid() != 0:
        sys.exit(f"pyverbs: these packages are missing: {' '.join(missing)}; install them, or run this as root")
    if missing:
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], stdout=subprocess.DEVNULL, check=True,
                       env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def installed_tests(scratch):
    """A copy of the distribution's, uncompressed."""
    if not INSTALLED.exists():
        install(["python3-pyverbs"])
    tests = Tests(scratch / "source")
    package = tests.directory / "tests"
    package.mkdir(parents=True)
    for path in sorted(INSTALLED.iterdir()):
        if FOREIGN.match(path.name):
            continue
        if path.suffix == ".gz":
            (package / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, package / path.name)
    return tests


def build_newest(source):
    """pyverbs, without vendors' parts, and librdmacm. The build directory."""
    build = ROOT / "build" / "rdma-core-build"
    suffix = subprocess.check_output([PYTHON, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"], text=True).strip()
    modules = [path.stem + suffix for path in sorted((source / "pyverbs").glob("*.pyx"))]
    configure = ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), "-DNO_MAN_PAGES=1", "-DCMAKE_BUILD_TYPE=Release",
                 f"-DPYTHON_EXECUTABLE={PYTHON}"]
    for command in (configure, ["ninja", "-C", str(build), "rdmacm", *modules]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"pyverbs: {' '.join(command[:3])} failed:\n{done.stdout.decode(errors='replace')[-4000:]}")
    return build


def newest_tests(scratch, source):
    """Those of a checkout, or of what a clone gives, and what is built of it, where any user can read it."""
    install(BUILD_PACKAGES)
    if source is None:
        source = ROOT / "build" / "rdma-core"
        if not source.exists():
            subprocess.run(["git", "clone", "-q", "--depth", "1", SOURCE, str(source)], check=True)
    build = build_newest(source.resolve())
    tests = Tests(scratch / "source")
    shutil.copytree(source / "tests", tests.directory / "tests", ignore=lambda _, names: [name for name in names if FOREIGN.match(name)])
    python, libraries, programs = (scratch / name for name in ("python", "lib", "bin"))
    shutil.copytree(build / "python" / "pyverbs", python / "pyverbs", ignore=shutil.ignore_patterns("providers"))
    (python / "pyverbs" / "providers").mkdir()
    (python / "pyverbs" / "providers" / "__init__.py").write_text(VENDORS)
    libraries.mkdir()
    shutil.copy((build / "lib" / "librdmacm.so.1").resolve(), libraries / "librdmacm.so.1")
    programs.mkdir()
    (programs / "rdma").write_text(RDMA_TOOL)
    (programs / "rdma").chmod(0o755)
    tests.environment = {"PYTHONPATH": str(python), "LD_LIBRARY_PATH": str(libraries), "PATH": f"{programs}:/usr/bin:/bin:/usr/sbin"}
    return tests


def run_file(weft, tests, name, directory, direct):
    """Outcomes of one file: a list of (test, outcome)."""
    (directory / "run").mkdir(mode=0o700)
    if os.geteuid() == 0:
        for path in (directory, directory / "run"):
            os.chown(path, NOBODY, NOBODY)
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin", "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory / "run"), "LANG": "C.UTF-8",
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **tests.environment}
    command = [str(weft), "run", *(["--direct"] if direct else []), "--", PYTHON, str(tests.directory / "tests" / "run_tests.py"), "-v", "-k", f"tests.{name}."]
    try:
        done = subprocess.run(as_user(command), cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=FILE_SECONDS)
        text, status = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        text, status = (late.stdout or b"").decode(errors="replace"), "no end"
    (directory / "output.txt").write_text(text)
    outcomes = RESULT.findall(text)
    known = {test for test, _ in outcomes}
    running = [test for test in STARTED.findall(text) if test not in known]
    if status not in (0, 1):
        outcomes += [(test, f"CRASH ({status})") for test in (running or [name])[-1:]]
    elif running or not outcomes:
        outcomes += [(test, "ERROR: no outcome was printed") for test in (running or [name])]
    return outcomes


def report(every, options):
    """What failed, what was skipped and why, the sum. How many failed."""
    bad = [(test, result) for test, result in every if result.split()[0].rstrip(":") in ("FAIL", "ERROR", "CRASH")]
    for test, result in bad:
        print(f"  {result}: {test}")
    skipped = [result for _, result in every if result.startswith("skipped")]
    if options.skips:
        for reason, count in collections.Counter(skipped).most_common():
            print(f"  {count:>3} {reason}")
    print(f"pyverbs ok {sum(result == 'ok' for _, result in every)} failed {len(bad)} skipped {len(skipped)}")
    return len(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--skips", action="store_true", help="print the reasons for which tests were skipped")
    parser.add_argument("--direct", action="store_true", help="with memory windows")
    parser.add_argument("--newest", nargs="?", type=pathlib.Path, const=True, metavar="DIR", help="rdma-core's newest source")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build directory")
    options = parser.parse_args()
    needs_build(options.build)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-pyverbs-"))
    scratch.chmod(0o755)
    weft = reachable_build(options.build.resolve(), scratch)
    if options.newest:
        tests = newest_tests(scratch, None if options.newest is True else options.newest)
    else:
        tests = installed_tests(scratch)
    known = [name.removeprefix("test_") for name in tests.names()]
    if unknown := [name for name in options.names if name not in known]:
        shutil.rmtree(scratch, ignore_errors=True)
        sys.exit(f"pyverbs: no file is called {', '.join(unknown)}; there are {', '.join(known)}")
    every = []
    for name in tests.names():
        if options.names and name.removeprefix("test_") not in options.names:
            continue
        directory = scratch / name
        directory.mkdir()
        outcomes = run_file(weft, tests, name, directory, options.direct)
        every += outcomes
        counts = collections.Counter(result.split()[0].rstrip(":") for _, result in outcomes)
        print(f"{name:<28} " + ", ".join(f"{word} {count}" for word, count in sorted(counts.items())), flush=True)
    failed = report(every, options)
    if not failed:
        shutil.rmtree(scratch, ignore_errors=True)  # the last fabric ends meanwhile, and removes its own
    else:
        print(f"outputs: {scratch}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
