#!/usr/bin/env python3
"""Measures the processor time of work that has nothing to do with RDMA.

  plain_work.py compile|git|shell

Prints the processor time of the work's processes in milliseconds, the median of several rounds. The current directory must be a scratch
directory. stock_figures.py runs it with and without `weft run`; the start of `weft run` itself is not measured.
"""
import pathlib
import resource
import statistics
import subprocess
import sys

ROUNDS = 9
PROGRAMS = 200  # programs that the shell starts
SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(
    f"int step_{i}(int a, int b) {{ int s = 0; for (int i = a; i < b; ++i) s += i * {i} ^ (s >> 3); return s; }}\n" for i in range(150))


def prepare_compile():
    pathlib.Path("work.c").write_text(SOURCE)


def prepare_git():
    """Makes a repository, because git refuses one of another user."""
    who = ["-c", "user.name=w", "-c", "user.email=w@example.org"]
    subprocess.run(["git", "init", "-q", "."], check=True)
    for number in range(40):
        for name in range(20):
            pathlib.Path(f"file{name}.c").write_text(SOURCE[:2000 + 97 * number * name % 9000])
        subprocess.run(["git", "add", "-A"], check=True)
        subprocess.run(["git", *who, "commit", "-qm", f"change {number}"], check=True)


WORK = {"compile": (prepare_compile, "exec cc -O2 -c -o work.o work.c"),
        "git": (prepare_git, "git log --stat -40 && git status"),
        "shell": (lambda: None, f"i=0; while [ $i -lt {PROGRAMS} ]; do /bin/true; i=$((i+1)); done")}


def processor_ms():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def main():
    prepare, line = WORK[sys.argv[1]]
    prepare()
    taken = []
    for _ in range(ROUNDS):
        before = processor_ms()
        subprocess.run(["sh", "-c", line], stdout=subprocess.DEVNULL, check=True)
        taken.append(processor_ms() - before)
    print(statistics.median(taken[1:]))  # the first one fills caches


main()
