"""The list of stock programs: what is run, as users type it, and what its output has to show.

A case is one command, or a server and a client; `{port}` is a port number of its own, `{dir}` its private directory. The check
gets both outputs and says what is wrong with them, or nothing.
"""
import dataclasses
import filecmp
import os
import pathlib
import re
import shutil
import subprocess
from typing import Callable, Optional

from kill_runs import CLOSED_ITS_CHANNEL, LISTENS


@dataclasses.dataclass
class Outcome:
    """What a case left behind."""
    server: str
    client: str
    directory: pathlib.Path


@dataclasses.dataclass
class Case:
    family: str
    name: str
    client: list
    check: Callable[[Outcome], Optional[str]]
    server: Optional[list] = None
    others: list = dataclasses.field(default_factory=list)  # commands beside the server, each of which ends well by itself
    roce: bool = False             # over a port that says it is Ethernet's
    listens: bool = True           # the server waits on a TCP port of the host; otherwise on one of the fabric
    persistent: bool = False       # the server goes on until it is ended
    status: tuple = (0,)           # exit status of the client that is right
    # Another exit status that is right, of both sides, if their output has this text.
    excuse: Optional[tuple] = None
    ended_after: Optional[float] = None  # the client goes on until it is ended: after so many seconds
    seconds: float = 60
    reliable: bool = True          # lost cells are repaired: by RC, or by the program
    talks: bool = True             # programs of it send each other something
    prepare: Optional[Callable[[pathlib.Path], None]] = None
    environment: dict = dataclasses.field(default_factory=dict)


PACKAGES = {"ibverbs-utils": "ibverbs-utils", "perftest": "perftest", "verbs_check": "gcc libibverbs-dev",
            "rdmacm-utils": "rdmacm-utils busybox", "qperf": "qperf", "fio": "fio", "ucx": "ucx-utils",
            "libfabric": "libfabric-bin", "qemu": "qemu-system-x86",
            "iser": "tgt libiscsi-bin qemu-utils qemu-block-extra", "openmpi": "openmpi-bin libopenmpi-dev",
            "infiniband-diags": "infiniband-diags", "roce": "ibverbs-utils perftest rdmacm-utils ucx-utils"}
HERE = pathlib.Path(__file__).resolve().parent
# Set where a case's sides are to stand at two switches: what WEFT_FABRIC is to be for a process of the other side than the one that
# reads it. A case of one command places some of its processes by it.
OTHER_SIDE = "STOCK_OTHER_SIDE"
LOSSES = "STOCK_LOSSES"  # set where cells are lost or damaged


def shows(*patterns):
    """Each pattern occurs in what the client prints."""
    def check(outcome):
        missing = [p for p in patterns if not re.search(p, outcome.client, re.MULTILINE)]
        return f"nothing like {missing[0]!r} in the output" if missing else None
    return check


def table(rows, columns):
    """At least so many lines of so many numbers, none of them negative or infinite, the second above zero. perftest's standard
    deviation may be none: it takes the root of a difference that rounding can make negative."""
    number = [r"(\d+(?:\.\d+)?)"] * columns
    if columns == 9:
        number[6] = r"(\d+(?:\.\d+)?|-?nan)"
    line = re.compile(r"^[ \t]*" + r"[ \t]+".join(number) + r"[ \t]*$", re.MULTILINE)

    def check(outcome):
        found = line.findall(outcome.client)
        if len(found) < rows:
            return f"{len(found)} lines of figures instead of {rows}"
        zero = [row for row in found if not float(row[1] if columns > 1 else row[0]) > 0]
        return f"a line of figures with a zero: {' '.join(zero[0])}" if zero else None
    return check


def both(*checks):
    def check(outcome):
        return next((fault for one in checks if (fault := one(outcome))), None)
    return check


def ibverbs_utils():
    family = "ibverbs-utils"
    yield Case(family, "ibv_devices", ["ibv_devices"], shows(r"^\s+\w+\s+[0-9a-f]{16}$"), talks=False)
    yield Case(family, "ibv_devinfo", ["ibv_devinfo"], shows(r"^hca_id:\s+\w+", r"state:\s+PORT_ACTIVE", r"port_lid:\s+[1-9]"),
               talks=False)
    yield Case(family, "ibv_devinfo -v", ["ibv_devinfo", "-v"],
               shows(r"max_qp:\s+[1-9]\d{3}", r"max_mr:\s+[1-9]\d{4}", r"atomic_cap:\s+ATOMIC", r"GID\[\s*0\]:\s+fe80:"),
               talks=False)
    yield Case(family, "ibv_devinfo -l", ["ibv_devinfo", "-l"], shows(r"^1 HCA found"), talks=False)
    yield Case(family, "ibv_asyncwatch", ["stdbuf", "-oL", "ibv_asyncwatch"], shows(r"async event FD"), ended_after=1.0,
               talks=False)

    def pingpong(kind, *options, count=1000):
        program = f"ibv_{kind}_pingpong"
        base = [program, "-p", "{port}", *options]
        name = " ".join([program, *options])
        check = shows(rf"^{count} iters in [0-9.]+ seconds") if kind != "xsrq" else None
        return Case(family, name, [*base, "127.0.0.1"], check or (lambda outcome: None), server=base,
                    reliable=kind not in ("uc", "ud"))

    for kind in ("rc", "uc"):
        yield pingpong(kind)
        yield pingpong(kind, "-e")
        yield pingpong(kind, "-c")
        yield pingpong(kind, "-s", "1048576", "-n", "100", "-c", count=100)
        yield pingpong(kind, "-s", "1", "-n", "200", count=200)
    yield pingpong("rc", "-N")
    yield pingpong("rc", "-t")
    yield pingpong("rc", "-e", "-N", "-t", "-c")
    yield pingpong("rc", "-m", "4096", "-r", "20")
    yield pingpong("ud")
    yield pingpong("ud", "-e")
    yield pingpong("ud", "-c", "-s", "1024")
    yield pingpong("srq")
    yield pingpong("srq", "-e")
    yield pingpong("srq", "-q", "4", "-c")
    yield pingpong("xsrq")
    yield pingpong("xsrq", "-e")
    yield pingpong("xsrq", "-n", "50")


def perftest():
    family = "perftest"

    def no_old_domain(_):
        """perftest leaves these files, which another user may not open."""
        for path in pathlib.Path("/tmp").glob("xrc_domain_*"):
            path.unlink(missing_ok=True)

    def pair(program, *options, rows=1, latency=None, listens=True, check=None, seconds=60):
        base = [program, "-F", "-p", "{port}", *options]
        columns = 9 if latency else 5
        return Case(family, " ".join([program, *options]), [*base, "127.0.0.1"], check or table(rows, columns), server=base,
                    listens=listens, seconds=seconds, prepare=no_old_domain if "XRC" in options else None,
                    reliable="UC" not in options and "UD" not in options)

    sizes = 23
    for verb in ("send", "write", "read"):
        lat, bw = f"ib_{verb}_lat", f"ib_{verb}_bw"
        yield pair(lat, "-n", "200", latency=True)
        yield pair(bw, "-n", "500")
        yield pair(lat, "-a", "-n", "20", latency=True, rows=sizes, seconds=120)
        yield pair(bw, "-a", "-n", "20", rows=sizes, seconds=120)
        yield pair(bw, "-q", "8", "-n", "200")
        yield pair(bw, "-Q", "20", "-n", "500")
        yield pair(bw, "-b", "-n", "500")
        yield pair(bw, "-l", "8", "-n", "512")
        yield pair(lat, "-R", "-n", "200", latency=True, listens=False)
        yield pair(bw, "-R", "-n", "500", listens=False)
        yield pair(bw, "--report_gbits", "-n", "500")
    for verb in ("send", "write"):
        yield pair(f"ib_{verb}_lat", "-I", "64", "-s", "32", "-n", "200", latency=True)
        yield pair(f"ib_{verb}_lat", "-c", "UC", "-n", "200", latency=True)
        yield pair(f"ib_{verb}_bw", "-c", "UC", "-n", "500")
        yield pair(f"ib_{verb}_lat", "-c", "XRC", "-n", "200", latency=True)
        yield pair(f"ib_{verb}_bw", "-c", "XRC", "-n", "500")
    yield pair("ib_send_lat", "-c", "UD", "-n", "200", latency=True)
    yield pair("ib_send_bw", "-c", "UD", "-n", "500", "-s", "1024")
    yield pair("ib_send_lat", "-e", "-n", "200", latency=True)
    yield pair("ib_send_bw", "-e", "-n", "500")
    yield pair("ib_send_bw", "--use-srq", "-n", "500")
    yield pair("ib_send_bw", "--use-srq", "-q", "4", "-n", "200")
    yield pair("ib_send_lat", "--use-srq", "-n", "200", latency=True)
    yield pair("ib_read_bw", "-e", "-n", "500")
    yield pair("ib_read_lat", "-e", "-n", "200", latency=True)
    for kind in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        yield pair("ib_atomic_lat", "-A", kind, "-n", "200", latency=True)
        yield pair("ib_atomic_bw", "-A", kind, "-n", "500")
    yield pair("ib_atomic_lat", "-R", "-n", "200", latency=True, listens=False)
    yield pair("ib_atomic_bw", "-q", "8", "-n", "200")

    def json_report(outcome):
        report = outcome.directory / "report.json"
        return None if report.exists() and "BW_average" in report.read_text() else "no report with BW_average"
    yield pair("ib_write_bw", "--out_json", "--out_json_file={dir}/report.json", "-n", "500", check=json_report)


def verbs_check():
    """perftest looks at no data: this program of ours does, built as any user's would be."""
    def built(directory):
        subprocess.run(["cc", "-O1", "-Wall", "-o", str(directory / "verbs_check"), str(HERE / "verbs_check.c"), "-libverbs"],
                       check=True)
        directory.chmod(0o755)

    for transport in ("rc", "uc", "ud", "xrc"):
        base = ["{dir}/verbs_check", transport, "{port}"]
        yield Case("verbs_check", transport, [*base, "127.0.0.1"],
                   shows(rf"^{transport}: \d+ operations, \d+ bytes compared, all right"), server=base, prepare=built,
                   reliable=transport in ("rc", "xrc"))


def rdmacm_utils():
    family = "rdmacm-utils"

    def pair(name, server, client, check, **more):
        return Case(family, name, client, check, server=server, listens=False, **more)

    rping = ["rping", "-v", "-V", "-p", "{port}"]

    def pings_of(name, server, client, count, **more):
        return pair(name, [*rping, "-s", *server], [*rping, "-c", *client], pings(count), excuse=CLOSED_ITS_CHANNEL, **more)

    def pings(count):
        def check(outcome):
            seen = outcome.client.count("ping data: rdma-ping-")
            return None if seen == count else f"{seen} pings instead of {count}"
        return check
    here = ["-a", "127.0.0.1"]
    yield pings_of("rping -V -C 100", ["-C", "100"], [*here, "-C", "100"], 100)
    yield pings_of("rping -V -S 65535", ["-C", "10", "-S", "65535"], [*here, "-C", "10", "-S", "65535"], 10)
    yield pings_of("rping IPv6", ["-a", "::0", "-C", "10"], ["-a", "::1", "-C", "10"], 10)
    yield pings_of("rping -q", ["-q", "-C", "10"], ["-q", *here, "-C", "10"], 10)
    yield pings_of("rping -P", ["-P"], [*here, "-C", "10"], 10, persistent=True)
    for program in ("ucmatose", "udaddy"):
        ends = shows(r"return status 0")
        reliable = program == "ucmatose"
        yield pair(program, [program, "-p", "{port}"] if program == "ucmatose" else [program],
                   [program, "-p", "{port}", "-s", "127.0.0.1"] if program == "ucmatose" else [program, "-s", "127.0.0.1"], ends,
                   reliable=reliable)
        yield pair(f"{program} -c 8", [program, "-c", "8"], [program, "-c", "8", "-s", "127.0.0.1"], ends, reliable=reliable)
        yield pair(f"{program} -C 100 -S 1000", [program, "-C", "100", "-S", "1000"],
                   [program, "-C", "100", "-S", "1000", "-s", "127.0.0.1"], ends, reliable=reliable)
    yield pair("mckey", ["mckey", "-m", "239.1.2.3"], ["mckey", "-m", "239.1.2.3", "-s"], shows(r"return status 0"),
               reliable=False)
    member = ["mckey", "-m", "239.1.2.3"]
    for receivers in (2, 3):
        yield pair(f"mckey, {receivers} receivers", member, [*member, "-s"], shows(r"return status 0"), reliable=False,
                   others=[member] * (receivers - 1))
    yield pair("mckey -c 4 -S 2048, 2 receivers", [*member, "-c", "4", "-S", "2048"], [*member, "-s", "-c", "4", "-S", "2048"],
               shows(r"return status 0"), reliable=False, others=[[*member, "-c", "4", "-S", "2048"]])
    # One goes when the others have left, and is heard by whoever has joined again.
    twice = ["sh", "-c", "mckey -m 239.1.2.3 && exec mckey -m 239.1.2.3"]
    yield pair("mckey, 2 receivers that leave and join again", twice,
               ["sh", "-c", "mckey -m 239.1.2.3 -s && sleep 1 && exec mckey -m 239.1.2.3 -s"],
               shows(r"return status 0[\s\S]*return status 0"), reliable=False, others=[twice])
    yield pair("cmtime", ["cmtime", "-p", "{port}", "-c", "20"], ["cmtime", "-p", "{port}", "-c", "20", "-s", "127.0.0.1"],
               shows(r"^(cm )?connect\s*:?\s", r"^disconnect\s*:?\s"), persistent=True)
    yield pair("rdma_client", ["rdma_server", "-p", "{port}"], ["rdma_client", "-s", "127.0.0.1", "-p", "{port}"],
               shows(r"rdma_client: end 0"))
    yield pair("rdma_xclient -c r", ["rdma_xserver", "-p", "{port}"], ["rdma_xclient", "-s", "127.0.0.1", "-p", "{port}"],
               shows(r"rdma_xclient: end 0"))
    yield pair("rdma_xclient -c x", ["rdma_xserver", "-p", "{port}", "-c", "x"],
               ["rdma_xclient", "-s", "127.0.0.1", "-p", "{port}", "-c", "x"], shows(r"rdma_xclient: end 0"))
    # With poll() the client takes the server's farewell, which may come with its last bytes, for an error: then its last line is
    # missing, on any device.
    for test, last in (("b", "1m_bw"), ("n", "1m_bw"), ("a", "64k_bw")):
        options = ["-p", "{port}", "-T", test]
        yield pair(f"rstream -T {test}", ["rstream", *options], ["rstream", *options, "-s", "127.0.0.1"],
                   shows(r"^64_lat\s+64\s", rf"^{last}\s"), seconds=120)
    verified = ["-p", "{port}", "-T", "v", "-S", "65536", "-I", "50", "-C", "4"]
    yield pair("rstream -T v", ["rstream", *verified], ["rstream", *verified, "-s", "127.0.0.1"], shows(r"64k"))
    small = ["-p", "{port}", "-S", "64"]
    yield pair("riostream -S 64", ["riostream", *small], ["riostream", *small, "-s", "127.0.0.1"], shows(r"64_lat|custom"),
               seconds=120)
    # Without -b it binds ::1 alone, whoever asks for 127.0.0.1. Without -C it makes some 100000 exchanges.
    pong = ["udpong", "-b", "127.0.0.1", "-p", "{port}"]
    for options in (["-S", "64", "-C", "1000", "-T", "e"], ["-S", "1000", "-C", "1000"], ["-S", "500", "-C", "200", "-T", "a"]):
        yield pair(" ".join(["udpong", *options]), pong, ["udpong", "-p", "{port}", "-s", "127.0.0.1", *options],
                   shows(r"^custom\s"), persistent=True, reliable=False)

    def random_file(directory):
        (directory / "sent").write_bytes(bytes((i * 2654435761 >> 13) & 255 for i in range(3_000_000)))

    def same(outcome):
        copy = outcome.directory / "copy"
        return None if copy.exists() and filecmp.cmp(outcome.directory / "sent", copy, shallow=False) else "the copy differs"
    yield pair("rcopy", ["rcopy", "-p", "{port}"], ["rcopy", "{dir}/sent", "127.0.0.1:{dir}/copy", "-p", "{port}"], same,
               persistent=True, prepare=random_file)

    def over_rsockets(outcome):
        """The server listens by the connection manager: the data took no socket of the host."""
        return None if LISTENS in outcome.server else "the server listens on a socket of the host"

    def sockets(line):
        """A program of sockets, made one of rsockets by librspreload, behind which our preloaded object stays. A sanitizer's runtime
        has to be the first of all."""
        first = "${WEFT_STOCK_RUNTIME:+$WEFT_STOCK_RUNTIME:}"
        return ["sh", "-c", f"LD_PRELOAD={first}$(echo /usr/lib/*/rsocket/librspreload.so):$LD_PRELOAD exec {line}"]

    def file_and_pipe(directory):
        """Beside the file, what a client reads that has nothing to say and must not end for it."""
        random_file(directory)
        os.mkfifo(directory / "open")
    # A program that exits without closing says no goodbye over rsockets, on any device: the last to go is ended.
    yield pair("librspreload: nc", sockets("busybox nc -l -p {port} < {dir}/sent"),
               sockets("busybox nc 127.0.0.1 {port} 0<> {dir}/open > {dir}/copy"), both(over_rsockets, same), persistent=True,
               prepare=file_and_pipe, environment={"WEFT_DEBUG": "cm"})


def qperf():
    def figures(count):
        def check(outcome):
            found = len(re.findall(r"^\s+(?:latency|bw|send_bw|msg_rate)\s+=\s+[0-9.]+ ", outcome.client, re.MULTILINE))
            return None if found >= count else f"{found} figures instead of {count}"
        return check
    tests = {"rc": ["rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw", "rc_rdma_write_lat",
                    "rc_rdma_write_bw", "rc_rdma_write_poll_lat"],
             "uc": ["uc_lat", "uc_bw", "uc_rdma_write_lat", "uc_rdma_write_bw"], "ud": ["ud_lat", "ud_bw"],
             "atomics": ["rc_compare_swap_mr", "rc_fetch_add_mr"]}
    server = ["qperf", "-lp", "{port}"]
    for name, each in tests.items():
        yield Case("qperf", name, [*server, "127.0.0.1", "-t", "1", *each], figures(len(each)), server=server, persistent=True,
                   reliable=name not in ("uc", "ud"))
    for test in ("rc_lat", "rc_bw"):
        yield Case("qperf", f"{test} -cm 1", [*server, "127.0.0.1", "-t", "1", "-cm", "1", test], figures(1), server=server,
                   persistent=True)


def fio():
    def right(outcome):
        if not re.search(r"err= 0", outcome.client):
            return "no job without an error"
        return "verify failed" if "verify:" in outcome.client.lower() and "bad" in outcome.client.lower() else None
    # The verb is the client's; who "writes" connects, who "reads" listens. A sender asks for no retry when its peer has no receive
    # posted, so with "send" the server posts all of them at once.
    for verb, depth in (("write", 16), ("read", 16), ("send", 512)):
        client = ["fio", "--name=c", "--ioengine=rdma", "--hostname=127.0.0.1", "--port={port}", f"--verb={verb}", "--rw=write",
                  "--bs=64k", "--size=32m", "--iodepth=8"]
        server = ["fio", "--name=s", "--ioengine=rdma", "--port={port}", "--rw=read", "--bs=64k", "--size=32m",
                  f"--iodepth={depth}"]
        yield Case("fio", f"rdma {verb}", client, right, server=server, listens=False)


def ucx():
    def final(outcome):
        rows = re.findall(r"^Final:\s+(\d+)\s+(?:[0-9.]+\s+)*([0-9.]+)", outcome.client, re.MULTILINE)
        return None if rows else "no line 'Final:'"
    base = ["ucx_perftest", "-p", "{port}"]
    for transport, test in (("rc_verbs", "am_lat"), ("rc_verbs", "am_bw"), ("rc_verbs", "put_lat"), ("rc_verbs", "put_bw"),
                            ("rc_verbs", "get"), ("rc_verbs", "fadd"), ("rc_verbs", "cswap"), ("ud_verbs", "am_lat"),
                            ("ud_verbs", "am_bw")):
        more = ["-D", "zcopy", "-s", "1024"] if test == "get" else []
        yield Case("ucx", f"UCT {transport} {test}",
                   [*base, "127.0.0.1", "-d", "weft0:1", "-x", transport, "-t", test, "-n", "200", "-w", "20", *more],
                   final, server=base)
    for test in ("tag_lat", "tag_bw", "stream_lat", "stream_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_am_lat", "ucp_am_bw",
                 "ucp_fadd", "ucp_cswap"):
        yield Case("ucx", f"UCP {test}", [*base, "127.0.0.1", "-t", test, "-n", "200", "-w", "20"], final, server=base,
                   environment={"UCX_TLS": "rc,ud,self"})
    # It sleeps until an event, and does not poll again once it has armed its queues. A lost event costs 100 ms.
    for transports in ("rc", "ud"):
        yield Case("ucx", f"UCP tag_lat -E sleep {transports}",
                   [*base, "127.0.0.1", "-t", "tag_lat", "-E", "sleep", "-n", "5000", "-w", "20"], final, server=[*base, "-E", "sleep"],
                   environment={"UCX_TLS": f"{transports},self"})


def libfabric():
    for name, provider, kind in (("msg", "verbs", "msg"), ("rxm", "verbs;ofi_rxm", "rdm"), ("dgram", "verbs", "dgram")):
        base = ["fi_pingpong", "-p", provider, "-e", kind, "-I", "100", "-B", "{port}"]
        client = [*base[:-2], "-P", "{port}", "127.0.0.1"]
        yield Case("libfabric", f"fi_pingpong {name}", client, shows(r"^64\s+100\s"), server=base, reliable=name != "dgram")
    yield Case("libfabric", "fi_info", ["fi_info", "-p", "verbs"], shows(r"provider: verbs"), talks=False)


def with_file(name):
    """A file of ours beside this one, where the user of the case may read it."""
    return lambda directory: shutil.copy(HERE / name, directory / name)


def qemu():
    for pin in ([], ["pin"]):
        yield Case("qemu", " ".join(["migrate rdma:", *pin]),
                   ["python3", "{dir}/qemu_migrate.py", "{dir}", "{port}", *pin], shows(r"^migrated \d+ bytes, memory equal"),
                   prepare=with_file("qemu_migrate.py"), seconds=150)


def iser():
    yield Case("iser", "tgtd, iscsi-inq, iscsi-readcapacity16, qemu-io",
               ["unshare", "-Ur", "python3", "{dir}/iser.py", "{dir}", "{port}"],
               shows(r"^\d+ bytes read and written over iSER, equal"), prepare=with_file("iser.py"), seconds=150)


def openmpi():
    def built(directory):
        """Compiled where it runs: what it includes and links is the distribution's."""
        subprocess.run(["mpicc", "-O1", "-Wall", "-o", str(directory / "mpi_check"), str(HERE / "mpi_check.c")], check=True)
        directory.chmod(0o755)

    ranks = ["mpirun", "--oversubscribe", "--mca", "btl", "^openib,uct,ofi", "-n", "4"]
    # Neighbours stand on two sides, where there are two.
    check = ["sh", "-c", f"[ $((OMPI_COMM_WORLD_RANK % 2)) = 0 ] || export WEFT_FABRIC=${{{OTHER_SIDE}:-$WEFT_FABRIC}}; exec {{dir}}/mpi_check"]
    ucx_of = {"rc_verbs": "rc_verbs,ud_verbs,self", "ud_verbs": "ud_verbs,self"}
    for transport, words in ucx_of.items():
        yield Case("openmpi", f"4 ranks, UCX {transport}",
                   [*ranks, "--mca", "pml", "ucx", "--mca", "osc", "ucx", *check],
                   shows(r"^4 ranks: all right"), prepare=built, seconds=180,
                   environment={"UCX_TLS": words, "UCX_NET_DEVICES": "weft0:1"})
    yield Case("openmpi", "4 ranks, libfabric verbs;ofi_rxm",
               [*ranks, "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm",
                "--mca", "osc", "pt2pt", *check],
               shows(r"^4 ranks: all right"), prepare=built, seconds=180)


def infiniband_diags():
    """Those that read sysfs alone; the others send management datagrams through /dev/infiniband/umad0."""
    def one(*words, check):
        return Case("infiniband-diags", " ".join(words), [*words], check, talks=False)
    yield one("ibstat", check=shows(r"^CA 'weft0'", r"State: Active", r"Physical state: LinkUp", r"Rate: 100", r"Base lid: [1-9]",
                                    r"Link layer: InfiniBand"))
    yield one("ibstat", "-l", check=shows(r"^weft0$"))
    yield one("ibstat", "-p", check=shows(r"^0x[0-9a-f]{16}$"))
    yield one("ibstatus", check=shows(r"Infiniband device 'weft0' port 1 status", r"state:\s+4: ACTIVE",
                                      r"rate:\s+100 Gb/sec \(4X EDR\)", r"link_layer:\s+InfiniBand"))


def with_options(case, *options):
    """The same with more options, which stand before the server's address."""
    return dataclasses.replace(case, name=" ".join([case.name, *options]), client=[*case.client[:-1], *options, case.client[-1]],
                               server=[*case.server, *options])


ROCE = ("ibv_devinfo -v", "ib_send_lat -R -n 200", "ib_write_lat -R -n 200", "ib_read_bw -R -n 500", "ib_atomic_lat -R -n 200",
        "rping -V -C 100", "rping IPv6", "ucmatose", "ucmatose -c 8", "udaddy", "udaddy -c 8", "mckey", "mckey, 3 receivers", "cmtime",
        "rdma_client", "rdma_xclient -c r", "rstream -T v", "rcopy", "UCT rc_verbs am_lat",
        "UCT rc_verbs put_bw", "UCT ud_verbs am_lat", "UCP tag_lat", "UCP ucp_put_bw", "UCP ucp_fadd")
ROCE_BY_GID = {"ibv_rc_pingpong": "-g", "ibv_uc_pingpong": "-g", "ibv_ud_pingpong": "-g", "ibv_srq_pingpong": "-g",
               "ib_send_lat -n 200": "-x", "ib_send_bw -n 500": "-x", "ib_write_bw -n 500": "-x", "ib_read_lat -n 200": "-x",
               "ib_write_bw -q 8 -n 200": "-x", "ib_send_bw -c UD -n 500 -s 1024": "-x", "ib_write_bw -c XRC -n 500": "-x",
               "ib_atomic_bw -A FETCH_AND_ADD -n 500": "-x"}


def roce():
    """Some of the above over RoCE; where a program takes the index of a GID, that of the IPv4 address of version 2. No udpong:
    rsockets makes the address of a datagram of a LID alone, and a RoCE port has none, on any device."""
    for case in (*ibverbs_utils(), *perftest(), *rdmacm_utils(), *ucx()):
        over = dataclasses.replace(case, family="roce", roce=True)
        if case.name == "ibv_devinfo -v":
            yield dataclasses.replace(over, check=shows(r"link_layer:\s+Ethernet", r"GID\[\s*3\]:\s+::ffff:10\.87\.\S+, RoCE v2"))
        elif case.name in ROCE_BY_GID:
            yield with_options(over, ROCE_BY_GID[case.name], "3")
        elif case.name in ROCE:
            yield over


def every_case():
    for family in (ibverbs_utils, perftest, verbs_check, rdmacm_utils, qperf, fio, ucx, libfabric, qemu, iser, openmpi,
                   infiniband_diags, roce):
        yield from family()
