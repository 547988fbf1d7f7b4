#!/usr/bin/env python3
"""Runs the test suites of other projects, unmodified, on a Weft device.

  scripts/suites ucx               UCX's gtest: UCT over rc_verbs and ud_verbs, UCP over both
  scripts/suites fabtests          libfabric's fabtests: the providers verbs and verbs;ofi_rxm
  scripts/suites mpi4py            mpi4py's tests: 2 and 4 ranks of Open MPI over UCX
  scripts/suites NAME WORD...      only the tests whose name contains one of the words

UCX and libfabric are built from the source package of the Debian release that runs here, or from the unpacked source package
that --source names; mpi4py is the package python3-mpi4py, and its tests are those of the source package. A suite runs as the user
`nobody` when this is run as root, in a process namespace of its own, so that nothing outlives it.

Prints the tests that failed, then one line with the counts. Exit status 1 if a test failed that tests/stock/suites.toml does not list.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import warden
from known_suites import limits_of
from stock import NOBODY, ROOT, as_user, reachable_build

# Sources and builds: kept, and readable for `nobody`, whom a suite runs as.
DEFAULT_WORK = pathlib.Path(os.environ.get("TMPDIR", "/var/tmp")) / f"weft-suites-{os.geteuid()}"
PROVIDERS = ("verbs", "verbs;ofi_rxm")
RANKS = (2, 4)
DEVICE = "weft0:1"
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


@dataclasses.dataclass
class Suite:
    """Where a suite is built and run."""
    name: str
    package: str          # Debian's source package
    build_packages: str   # of Debian, that it needs
    work: pathlib.Path
    weft: pathlib.Path
    words: list
    jobs: int

    @property
    def run_directory(self):
        return self.work / "run"

    def wants(self, test):
        return not self.words or any(word in test for word in self.words)

    def output(self, role):
        return self.work / f"{role}.txt"


def checked(command, log, **options):
    """Runs a step of a build; its output is in the file `log`."""
    with log.open("ab") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        sys.exit(f"suites: {' '.join(map(str, command))[:100]} ended with status {done.returncode}; see {log}")


def install(packages):
    missing = [name for name in packages.split()
               if subprocess.run(["dpkg", "-s", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode]
    if missing and os.geteuid() != 0:
        sys.exit(f"suites: these packages are missing: {' '.join(missing)}; install them, or run this as root")
    if missing:
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], stdout=subprocess.DEVNULL, check=True,
                       env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def fetch_source(suite):
    """The unpacked source package of this release. The system's package sources stay as they are: the list of sources is our own."""
    source = suite.work / "source"
    if source.exists():
        return source
    apt = suite.work / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    mirror = subprocess.run(["bash", "-ec", '. "$0"; debian_mirror', str(ROOT / "scripts" / "debian_root")], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    if not mirror:
        sys.exit("suites: no Debian mirror in this machine's package sources; name an unpacked source package with --source")
    release = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M).group(1)
    (apt / "sources.list").write_text(f"deb-src {mirror} {release} main\n")
    words = ["-o", f"Dir::Etc::sourcelist={apt}/sources.list", "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={apt}/lists"]
    log = suite.work / "source.log"
    checked(["apt-get", *words, "update"], log)
    checked(["apt-get", *words, "source", "--only-source", "--download-only", suite.package], log, cwd=apt)
    description = next(apt.glob(f"{suite.package}_*.dsc"))
    checked(["dpkg-source", "--no-check", "-x", str(description), str(source)], log)
    return source


def autotools(suite, source, build, *options, environment=()):
    """Configures and builds a package of GNU's autotools outside its source; installs nothing."""
    log = suite.work / "build.log"
    if not (source / "configure").exists():
        checked(["sh", "./autogen.sh"], log, cwd=source)
    build.mkdir(parents=True, exist_ok=True)
    if not (build / "Makefile").exists():
        checked([str(source / "configure"), *options], log, cwd=build, env=dict(os.environ, **dict(environment)))
    checked(["make", f"-j{suite.jobs}"], log, cwd=build)


def run(suite, role, command, environment, seconds):
    """Runs a command below `weft run` without any privilege; its exit status, None after so many seconds. Output: suite.output(role)."""
    directory = suite.run_directory
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "run").mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        for path in (directory, directory / "run"):
            os.chown(path, NOBODY, NOBODY)
    # Scripts of these suites end processes by name: they see no other than their own.
    alone = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-current-user"]), "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", '"$@"; exit $?', "first"]  # a process that becomes another user no longer ends with its parent
    variables = {"PATH": PATH, "HOME": str(directory), "TMPDIR": str(directory), "LANG": "C.UTF-8",
                 "XDG_RUNTIME_DIR": str(directory / "run"), **environment}
    with suite.output(role).open("wb") as output:
        child = subprocess.Popen([*alone, *as_user([str(suite.weft), "run", "--", *command])], stdout=output, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, cwd=directory, env=variables)
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()
            child.wait()


# UCX -----------------------------------------------------------------------------------------------------------------------------

# Prefixes of the parametrised suites that use a verbs transport: UCT's, then UCP's.
UCX_SUITES = re.compile(r"(rc_verbs|ud_verbs|rc|ud|rcv|udv|rc_ud|shm_ib|ib|all|all_rcv|rdmacm|no_rdmacm)/")
UCX_SUITE_SECONDS = 1200


def build_ucx(suite, source):
    build = suite.work / "build"
    autotools(suite, source, build, "--enable-gtest", "--enable-examples", "--enable-mt", "--with-verbs", "--without-mlx5-dv", "--without-java",
              "--without-go", "--without-cuda", "--without-rocm", "--without-knem", "--without-xpmem", "--without-fuse3",
              "--disable-doxygen-doc", "--disable-numa", "CFLAGS=-O2 -g0 -Wno-error", "CXXFLAGS=-O0 -g0 -Wno-error")
    gtest = build / "test" / "gtest"
    checked(["make", f"-j{suite.jobs}", "gtest"], suite.work / "build.log", cwd=gtest)
    return gtest / "gtest"


def gtest_names(text):
    """Names of tests from --gtest_list_tests, by their suite."""
    suites, current = {}, None
    for line in text.splitlines():
        line = line.split("  # ")[0].rstrip()
        if line.endswith(".") and not line.startswith(" "):
            current = line
        elif line.startswith("  ") and current:
            suites.setdefault(current, []).append(line.strip())
    return suites


def gtest_outcomes(text):
    """(finished, running): outcomes by name, and the test that had begun last and not ended."""
    outcomes, running, skipped = {}, None, False
    for mark, rest in re.findall(r"\[ *(RUN|OK|FAILED|SKIP|SKIPPED|PASSED) *\] ?(.*)", text):
        name = re.match(r"[\w/.,<>]*", rest).group(0).rstrip(",")
        if mark == "RUN":
            running, skipped = name, False
        elif mark in ("SKIP", "SKIPPED"):
            skipped = True
        elif running and name == running:
            outcomes[name] = "failed" if mark == "FAILED" else "skipped" if skipped else "passed"
            running = None
    return outcomes, running


def ucx(suite, source):
    program = build_ucx(suite, source)
    environment = {"UCX_NET_DEVICES": DEVICE, "UCX_HANDLE_ERRORS": "bt", "GTEST_COLOR": "no"}
    run(suite, "list", [str(program), "--gtest_list_tests"], environment, 120)
    outcomes = {}
    for prefix, tests in gtest_names(suite.output("list").read_text(errors="replace")).items():
        left = [prefix + test for test in tests if UCX_SUITES.match(prefix) and suite.wants(prefix + test)]
        round_number = 0
        while left:
            # A name stands for itself in a filter: those of one suite are few enough for an argument.
            status = run(suite, "ucx", [str(program), "--gtest_filter=" + ":".join(left)], environment, UCX_SUITE_SECONDS)
            text = suite.output("ucx").read_text(errors="replace")
            done, running = gtest_outcomes(text)
            if running is None and not done:
                running = left[0]
            if running:
                done[running] = "did not end" if status is None else f"crashed ({status})"
            if any(result not in ("passed", "skipped") for result in done.values()):
                round_number += 1
                suite.output(f"failed {prefix.replace('/', ' ')}{round_number}").write_text(text)
            outcomes.update(done)
            left = [test for test in left if test not in done]
            print(f"{prefix:<50} {sum(result == 'passed' for result in done.values())} of {len(done)} passed", flush=True)
    return outcomes


# fabtests ------------------------------------------------------------------------------------------------------------------------


def build_fabtests(suite, source):
    """libfabric with the providers that run here, and its tests, built with it."""
    prefix = suite.work / "installed"
    library = suite.work / "build"
    off = [f"--disable-{name}" for name in ("psm2", "psm3", "opx", "efa", "usnic", "shm", "sockets", "udp", "mrail", "rxd", "sm2", "ucx",
                                            "lpp", "hook_hmem", "dmabuf_peer_mem")]
    autotools(suite, source, library, f"--prefix={prefix}", "--enable-verbs", "--enable-rxm", "--enable-tcp", *off, "CFLAGS=-O2 -g0")
    checked(["make", "install"], suite.work / "build.log", cwd=library)
    tests = suite.work / "build_tests"
    autotools(suite, source / "fabtests", tests, f"--prefix={prefix}", f"--with-libfabric={prefix}", "CFLAGS=-O2 -g0")
    checked(["make", "install"], suite.work / "build.log", cwd=tests)
    return prefix


def fabtests_outcomes(text):
    words = {"Pass": "passed", "Fail": "failed", "Notrun": "skipped", "Excluded": "skipped"}
    return {name: words[result] for name, result in re.findall(r'^- name:   (.*?) *\n  timestamp:.*\n  result: (\w+)', text, re.M)}


def patient_sleep(suite):
    """A directory with a `sleep` that takes longer while others keep the cores: runfabtests.sh gives a server one second to listen. It
    takes 20 s more at most, because runfabtests.sh also ends a server after 120 s."""
    directory = suite.work / "programs"
    directory.mkdir(exist_ok=True)
    program = directory / "sleep"
    program.write_text("""#!/usr/bin/python3
import os
import sys
import time
seconds = float(sys.argv[1])
time.sleep(min(seconds * max(1, os.getloadavg()[0] / os.cpu_count()), seconds + 20))
""")
    program.chmod(0o755)
    return directory


def own_address():
    """An address of this machine. Not the loopback address: libfabric's verbs provider drops the port of that when a device has it."""
    shown = subprocess.run(["ip", "-4", "-o", "address", "show", "scope", "global"], stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r" inet ([0-9.]+)", shown)
    return found.group(1) if found else sys.exit("suites: fabtests need an IPv4 address of this machine beside 127.0.0.1")


def fabtests(suite, source):
    prefix = build_fabtests(suite, source)
    address = own_address()
    path = f"{patient_sleep(suite)}:{PATH}"
    outcomes = {}
    for provider in PROVIDERS:
        # The script looks for lists of tests and of exclusions below its directory. After fi_msg_sockets, which fails (suites.toml), its
        # server keeps the port of the next test.
        script = ('cp -r "$0"/fabtests/test_configs . && printf "\\nfi_msg_sockets\\n" >>test_configs/verbs/verbs.exclude && '
                  'exec "$1"/bin/runfabtests.sh -v -T 120 -t "$4" -s "$3" -c "$3" -g "$3" -p "$1"/bin "$2"')
        sets = ",".join(suite.words or ["all"])
        status = run(suite, provider.replace(";", "_"), ["bash", "-c", script, str(source), str(prefix), provider, address, sets],
                     {"LD_LIBRARY_PATH": str(prefix / "lib"), "FI_LOG_LEVEL": "warn", "PATH": path}, 3600)
        done = fabtests_outcomes(suite.output(provider.replace(";", "_")).read_text(errors="replace"))
        if status is None or not done:
            done[f"runfabtests.sh {provider}"] = "failed"
        outcomes.update(done)
        print(f"{provider:<20} {sum(result == 'passed' for result in done.values())} of {len(done)} passed", flush=True)
    return outcomes


# mpi4py --------------------------------------------------------------------------------------------------------------------------


def mpi4py_outcomes(text):
    """Outcomes of one rank, by name. A test may print lines of its own before its outcome."""
    outcomes = {}
    for name, where, result in re.findall(r"^(test\w+) \(([\w.]+)\)[^\n]*? \.\.\. (?:(?!^test\w+ \()[\s\S])*?"
                                          r"(ok|FAIL|ERROR|skipped)", text, re.M):
        name = where if where.endswith(f".{name}") else f"{where}.{name}"
        outcomes[name] = {"ok": "passed", "skipped": "skipped"}.get(result, "failed")
    return outcomes


def mpi4py(suite, source):
    """All tests with one-sided communication by messages, then those of one-sided communication by UCX. Dynamic windows by UCX end
    Open MPI 4.1 with a segmentation fault, over any transport of UCX. Windows by messages are refused to programs with several threads:
    the tests skip, or are listed."""
    outcomes = {}
    for ranks in RANKS:
        for osc, only in (("pt2pt", suite.words), ("ucx", ["test_rma", "test_msgspec"])):
            role = f"{ranks} ranks, osc {osc}"
            command = ["mpirun", "--oversubscribe", "--mca", "btl", "^openib,uct,ofi", "--mca", "pml", "ucx", "--mca", "osc", osc,
                       "--output-filename", "out", "-n", str(ranks), "/usr/bin/python3", str(source / "test" / "runtests.py"), "-v",
                       "--no-builddir", *[word for name in only for word in ("-i", name)]]
            status = run(suite, role, command, {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": DEVICE}, 3600)
            texts = [path.read_text(errors="replace") for path in sorted((suite.run_directory / "out").glob("*/rank.*/stderr"))]
            done = {}
            for text in texts:
                done.update({name: result for name, result in mpi4py_outcomes(text).items() if done.get(name) != "failed"})
            bad = [name for name, result in done.items() if result == "failed"]
            if len(texts) != ranks or not done or (status != 0 and not bad):
                done["runtests.py"] = f"ended with status {status}, {len(texts)} ranks"
            if status != 0:
                suite.output(f"failed {role}").write_text("\n".join(texts))
            outcomes.update({f"{role}: {name}": result for name, result in done.items()})
            print(f"{role}: {sum(result == 'passed' for result in done.values())} of {len(done)} passed", flush=True)
    return outcomes


SUITES = {"ucx": (ucx, "ucx", "g++ make autoconf automake libtool pkg-config dpkg-dev libibverbs-dev librdmacm-dev"),
          "fabtests": (fabtests, "libfabric", "gcc make autoconf automake libtool pkg-config dpkg-dev libibverbs-dev librdmacm-dev procps iproute2"),
          "mpi4py": (mpi4py, "mpi4py", "python3-mpi4py python3-numpy openmpi-bin dpkg-dev")}


def report(name, outcomes, limits):
    """Prints what failed and the counts. How many failed that are not listed."""
    listed = unlisted = 0
    for test, result in sorted(outcomes.items()):
        if result in ("passed", "skipped"):
            continue
        limit = next((limit for limit in limits if re.fullmatch(limit["tests"], test)), None)
        listed += limit is not None
        unlisted += limit is None
        print(f"  {result}: {test}" + (f" (listed: {limit['reason']})" if limit else ""))
    passed = sum(result == "passed" for result in outcomes.values())
    skipped = sum(result == "skipped" for result in outcomes.values())
    print(f"{name}: {passed} passed, {skipped} skipped, {listed} failed as listed, {unlisted} failed")
    return unlisted


def own_directory(path):
    """`path`, made if it is missing. Sources in it are built with the caller's rights: no other user may have put them there."""
    path.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        sys.exit(f"suites: {path} is not a directory of this user that others cannot change; name another one: --work DIR")
    return path.resolve()


def work_on(options):
    function, package, build_packages = SUITES[options.suite]
    work = own_directory(options.work or DEFAULT_WORK) / options.suite
    work.mkdir(exist_ok=True)
    install(build_packages)
    scratch = work / "weft"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    weft = reachable_build(options.build.resolve(), scratch)
    suite = Suite(options.suite, package, build_packages, work, weft, options.words, options.jobs)
    source = options.source.resolve() if options.source else fetch_source(suite)
    outcomes = function(suite, source)
    if not outcomes:
        sys.exit(f"suites: no test of {options.suite} has run; see {work}")
    unlisted = report(options.suite, outcomes, limits_of(options.suite))
    if unlisted:
        print(f"outputs: {work}")
    return 1 if unlisted else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("words", nargs="*", metavar="WORD", help="of fabtests: sets of tests, such as quick")
    parser.add_argument("--source", type=pathlib.Path, metavar="DIR", help="an unpacked source package")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR", help=f"where sources and builds stay ({DEFAULT_WORK})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="compilers at once (2)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="Weft's build directory")
    options = parser.parse_intermixed_args()
    return warden.supervise(lambda: work_on(options))


if __name__ == "__main__":
    sys.exit(main())
