"""Figures of stock programs through memory windows (weft run --direct, docs/window.md). References are programs that use the same
copies of the kernel, or shared memory, without Weft."""
import re

from figure import Figure, Target
from running import Failed
from stock_figures import MIB, Mpi, Perftest, SpinLatency

DIRECT = {"WEFT_DIRECT": "1"}
UCX = "ucx-utils"


def ucx(programs, test, column, *options, environment=None):
    """A column of the line "Final:" of ucx_perftest: 0 is the typical latency in us, 4 the rate in MB (2^20 bytes)."""
    text = programs.exchange(["ucx_perftest", "-t", test, *options], bare=True, environment=environment)
    found = re.search(r"^Final:\s+\d+((?:\s+[0-9.]+)+)", text, re.MULTILINE)
    if not found:
        raise Failed("ucx_perftest: no line 'Final:'")
    return float(found.group(1).split()[column])


def cma(programs, test, column, *options):
    """By the copies of the kernel; short messages need an explicit wish for them."""
    return ucx(programs, test, column, "-x", "cma", "-d", "memory", "-D", "zcopy", *options)


def rsockets(programs, column, size, iterations, environment=None):
    """Blocking streams: an end sleeps until the next event. A column of rstream's last line: -1 is one way in us, -2 the rate in Gb/s."""
    command = ["rstream", "-T", "b", "-S", size, "-C", 1, "-I", iterations]
    text = programs.exchange(command, environment=environment, to=("-s", "127.0.0.1"), begins=1)
    found = re.search(r"^custom\s.*", text, re.MULTILINE)
    if not found:
        raise Failed("rstream: no line 'custom'")
    return float(found.group().split()[column])


def figures(programs, copy_us, quick):
    """`copy_us(bytes, list)` is the time of one bare copy of the kernel, of several in one call."""
    perftest, mpi = Perftest(programs, DIRECT), Mpi(programs, DIRECT)
    spin = SpinLatency(programs, 0.3 if quick else 1.0, DIRECT)
    rounds = 20_000 if quick else 100_000
    needs = {name: "perftest" for name in ("ib_send_lat", "ib_write_lat", "ib_write_bw")} | {"ucx_perftest": UCX}
    write, send, bare = {}, {}, {}
    yield Figure("direct_write_lat", "us", lambda: perftest.latency("ib_write_lat", rounds, write),
                 lambda: cma(programs, "put_lat", 0, "-s", 8, "-n", rounds), "ucx_perftest put_lat over UCX cma",
                 Target("at most", 1.2), needs=needs, seen=write)
    yield Figure("direct_write_lat_copy", "us", lambda: perftest.latency("ib_write_lat", rounds, bare), lambda: copy_us(8, 1),
                 "the kernel's copy of 8 bytes alone", needs=needs, seen=bare)
    yield Figure("direct_send_lat", "us", lambda: perftest.latency("ib_send_lat", rounds, send),
                 lambda: ucx(programs, "tag_lat", 0, "-s", 8, "-n", rounds, environment={"UCX_TLS": "posix,self"}),
                 "ucx_perftest tag_lat over UCX posix", Target("at most", 3), needs=needs, seen=send)
    yield Figure("direct_spin_lat", "us", spin.measure, lambda: copy_us(8, 1), "the kernel's copy of 8 bytes alone",
                 Target("at most", 1.5, "value"), needs={"cc": "gcc libibverbs-dev"}, seen=spin.seen)
    for name, size, iterations in (("4k", 4096, 100_000), ("64k", 1 << 16, 20_000), ("1m", 1 << 20, 2_000)):
        count = iterations // 4 if quick else iterations
        yield Figure(f"direct_write_bw_{name}", "MB/s", lambda size=size, count=count: perftest.bandwidth(size, count)[0],
                     lambda size=size, count=count: cma(programs, "put_bw", 4, "-s", size, "-n", count) * MIB,
                     "ucx_perftest put_bw over UCX cma", Target("at least", 0.9), needs=needs)
    yield Figure("direct_write_rate_8", "M/s", lambda: perftest.bandwidth(8, 10 * rounds, "-l", 32)[1], lambda: 1 / copy_us(8, 32),
                 "the kernel's copies in lists of 32", Target("at least", 2, "value"), needs=needs)
    for name, unit, column, size, target in (("lat", "us", -1, 64, Target("at most", 1)),
                                             ("bw", "Gb/s", -2, 1 << 16, Target("at least", 1))):
        yield Figure(f"direct_rsockets_{name}", unit, lambda at=(column, size): rsockets(programs, *at, rounds // 4, DIRECT),
                     lambda at=(column, size): rsockets(programs, *at, rounds // 4), "the same through the switch", target,
                     needs={"rstream": "rdmacm-utils"})
    for name, unit, target in (("lat", "us", Target("at most", 3)), ("bw", "MB/s", Target("at least", 0.7))):
        yield Figure(f"direct_mpi_{name}", unit, lambda name=name: mpi.measure(name, "rc_verbs"),
                     lambda name=name: mpi.measure(name, "posix"), "the same over UCX posix", target,
                     needs={"mpirun": "openmpi-bin", "mpicc": "libopenmpi-dev"})
