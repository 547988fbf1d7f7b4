"""Captures of stock programs: tshark shows their packets as those of RoCE v2, none of them malformed, numbers, opcodes and CRCs
as a wire would have them; from before a program starts, into files and pipes; and cells by the Lua dissector."""
import collections
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zlib

import harness
from test_programs import DLT_USER0, ProgramCase, read_cells
from test_run import listens
from weft_case import ECHO, SOURCE

LUA = SOURCE / "tools" / "wireshark" / "weft.lua"
Packet = collections.namedtuple("Packet", "direction time frame comment")
SEND, WRITE, READ, READ_ANSWER = range(0x00, 0x06), range(0x06, 0x0C), range(0x0C, 0x0D), range(0x0D, 0x11)
ACK, ATOMIC_ACK, ATOMIC, UD = 0x11, 0x12, (0x13, 0x14), 0x64
GOLDEN_CELL = bytes.fromhex("0200000100020200000100010102da00004a1c070091d302002f0a1100000004"
                            "5c3a71e6d04215002a9e4c01070501007765667415" "0001a6")
GOLDEN_FLIT = bytes.fromhex("00c00038010200fe00000040ef3fe91c") + GOLDEN_CELL


def read_packets(data):
    """The packet blocks of a pcapng file."""
    packets, at = [], 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        if kind == 6:
            _, high, low, kept, _ = struct.unpack_from("=IIIII", data, at + 8)
            option, options = at + 28 + (kept + 3) // 4 * 4, {}
            while (code := struct.unpack_from("=H", data, option)[0]) != 0:
                length = struct.unpack_from("=H", data, option + 2)[0]
                options[code] = data[option + 4:option + 4 + length]
                option += 4 + (length + 3) // 4 * 4
            direction = {1: "in", 2: "out"}[struct.unpack("=I", options[2])[0]]
            packets.append(Packet(direction, high << 32 | low, data[at + 28:at + 28 + kept], options.get(1, b"").decode()))
        at += size
    return packets


def ip_bytes(frame):
    return {b"\x08\x00": 20, b"\x86\xdd": 40}[frame[12:14]]


def base_header(frame):
    """Opcode, destination QP, PSN."""
    bth = frame[14 + ip_bytes(frame) + 8:][:12]
    return bth[0], int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big")


def invariant_crc(frame):
    """As annex A17 of the InfiniBand specification has it."""
    ip, covered = ip_bytes(frame), bytearray(frame[14:-4])
    for at in (1, 8, 10, 11) if ip == 20 else (1, 2, 3, 7):
        covered[at] = 0xFF
    if ip == 40:
        covered[0] |= 0x0F
    for at in (ip + 6, ip + 7, ip + 8 + 4):
        covered[at] = 0xFF
    return zlib.crc32(b"\xFF" * 8 + covered).to_bytes(4, "little")


def tshark(file, *options):
    """The lines that it prints."""
    done = subprocess.run(["tshark", "-n", "-r", str(file), "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", *options],
                          capture_output=True, text=True, timeout=60, env=dict(os.environ, HOME="/nonexistent"))
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.splitlines()


class CaptureCase(ProgramCase):
    def capture(self, *words, file=None, **pipes):
        """Starts one; it is there when its file is."""
        file = file or self.path / "packets.pcapng"
        process = self.start("capture", *words, "-o", file, stderr=subprocess.PIPE, **pipes)
        harness.wait_for(lambda: file.exists() and file.stat().st_size > 0, "the capture to begin")
        return process, file

    def end_of(self, capture):
        """What it says last; it ends by itself, well."""
        said = capture.communicate(timeout=30)[1]
        self.assertEqual(capture.returncode, 0, said)
        return said

    def talk(self, *words, listening=None, address="127.0.0.1"):
        """A server `alice`, and a client `bob` that talks to it until both are done."""
        server = self.start("run", "--node", "alice", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.wait_for(listening, f"{words[0]} to listen")
        code, out, errors = self.weft("run", "--node", "bob", *words, *([address] if address else []))
        self.assertEqual((code, server.wait(timeout=30)), (0, 0), out + errors)

    def captured(self, *words):
        """What passes the port of the server of a stock program over TCP, from before it starts."""
        port = 26000 + os.getpid() % 4000
        capture, file = self.capture("alice")
        self.talk(words[0], "-p", str(port), *words[1:], listening=lambda: listens(port))
        self.assertIn("'alice' has ended", self.end_of(capture))
        return file

    def check(self, file):
        """Frames as from a wire, to tshark too; how often each opcode is there."""
        packets = read_packets(file.read_bytes())
        self.assertGreater(len(packets), 0)
        for packet in packets:
            self.assertEqual(packet.frame[-4:], invariant_crc(packet.frame))
        self.assertEqual([p.time for p in packets], sorted(p.time for p in packets))
        if shutil.which("tshark"):
            self.assertEqual(tshark(file, "-Y", "_ws.malformed || _ws.expert.severity >= 6291456"), [])
            seen = tshark(file, "-T", "fields", "-e", "infiniband.bth.opcode")
            self.assertEqual([int(each) for each in seen], [base_header(p.frame)[0] for p in packets])
        return collections.Counter(base_header(p.frame)[0] for p in packets), packets

    def check_numbers(self, packets, direction, opcodes):
        """Each is one more than that before, where nothing was lost."""
        psns = [base_header(p.frame)[2] for p in packets if p.direction == direction and base_header(p.frame)[0] in opcodes]
        self.assertEqual([(b - a) % (1 << 24) for a, b in zip(psns, psns[1:])], [1] * (len(psns) - 1))


class StockProgramsTest(CaptureCase):
    def test_sends(self):
        seen, packets = self.check(self.captured("ibv_rc_pingpong", "-s", "100000", "-n", "20"))
        self.assertEqual((seen[0x00], seen[0x01], seen[0x02]), (40, 40 * 23, 40), "25 frames of 4096 bytes each way")
        self.assertGreater(seen[ACK], 0)
        self.assertEqual(set(seen) - {0, 1, 2, ACK}, set())
        for direction in ("in", "out"):
            self.check_numbers(packets, direction, SEND)
        last = {direction: [base_header(p.frame)[2] for p in packets if p.direction == direction and base_header(p.frame)[0] in SEND][-1]
                for direction in ("in", "out")}
        acknowledged = {p.direction: base_header(p.frame)[2] for p in packets if base_header(p.frame)[0] == ACK}
        self.assertEqual(acknowledged["out"], last["in"], "the last of them is acknowledged")

    def test_datagrams(self):
        seen, _ = self.check(self.captured("ibv_ud_pingpong", "-n", "20"))
        self.assertEqual(seen, {UD: 40})

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_writes(self):
        seen, packets = self.check(self.captured("ib_write_bw", "-s", "65536", "-n", "20"))
        self.assertEqual((seen[0x06], seen[0x08], seen[0x07]), (20, 20, 20 * 14))
        self.check_numbers(packets, "in", WRITE)
        lengths = {struct.unpack_from(">I", p.frame, 14 + 20 + 8 + 12 + 12)[0] for p in packets if base_header(p.frame)[0] == 0x06}
        self.assertEqual(lengths, {65536})

    @unittest.skipUnless(shutil.which("ib_read_lat"), "perftest is not installed")
    def test_reads(self):
        seen, packets = self.check(self.captured("ib_read_lat", "-s", "16384", "-n", "20"))
        self.assertGreaterEqual(seen[0x0C], 20)
        self.assertEqual((seen[0x0D], seen[0x0E], seen[0x0F]), (seen[0x0C], 2 * seen[0x0C], seen[0x0C]))
        self.check_numbers(packets, "out", READ_ANSWER)

    @unittest.skipUnless(shutil.which("ib_atomic_lat"), "perftest is not installed")
    def test_atomic_operations(self):
        seen, _ = self.check(self.captured("ib_atomic_lat", "-n", "20"))
        requests = sum(seen[opcode] for opcode in ATOMIC)
        self.assertGreaterEqual(requests, 20)
        self.assertEqual(seen[ATOMIC_ACK], requests)

    @unittest.skipUnless(shutil.which("rping"), "rdmacm-utils is not installed")
    def test_connections(self):
        """The client is captured: its first datagram, which asks who has the address, is there, and its request behind it."""
        if not (harness.BIN.parent / "lib/weft/libweft_preload.so").exists():
            self.skipTest("the preloaded object is not built")
        capture, file = self.capture("bob")
        port = str(26000 + os.getpid() % 4000)
        server = self.start("run", "--node", "alice", "rping", "-s", "-C", "5", "-p", port, stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: "alice" in self.nodes(), "the server to join")
        time.sleep(1.0)  # and to listen, which nobody outside sees
        code, out, errors = self.weft("run", "--node", "bob", "rping", "-c", "-C", "5", "-a", "127.0.0.1", "-p", port)
        self.assertEqual((code, server.wait(timeout=30)), (0, 0), out + errors)
        self.end_of(capture)
        seen, packets = self.check(file)
        self.assertTrue(seen[UD] >= 6 and seen[0x04] and seen[ACK] and seen[0x0C] and seen[0x10] and seen[0x0A], seen)
        question = packets[0].frame[14 + ip_bytes(packets[0].frame) + 28:]
        self.assertEqual((packets[0].direction, question[16:18].hex()), ("out", "0101"), "who has the address")
        if shutil.which("tshark"):
            kinds = [int(each, 16) for each in tshark(file, "-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields", "-e",
                                                      "infiniband.mad.attributeid")]
            self.assertEqual(kinds[:3], [0x10, 0x13, 0x14], "REQ, REP, RTU")
            request = tshark(file, "-Y", "infiniband.cm.req", "-T", "fields", "-e", "infiniband.cm.req.startpsn")
            first = next(base_header(p.frame)[2] for p in packets if p.direction == "out" and base_header(p.frame)[0] == 0x04)
            self.assertEqual(int(request[0], 0), first, "numbers begin where the request says")

    def test_repeats_are_as_many_as_were_counted(self):
        self.pair()
        base = self.repeated("alice")
        capture, file = self.capture("alice")
        self.assertEqual(self.weft("fault", "alice", "drop", "--every", "10", "--limit", "40", "--direction", "from", "--opcode",
                                   "send", "--seed", "7")[0], 0)
        self.assertEqual(self.weft("fault", "bob", "rate", "3000")[0], 0)
        harness.wait_for(lambda: json.loads(self.weft("fault", "list", "--json")[1])["faults"][0]["struck"] == 40, "40 losses")
        harness.wait_for(lambda: self.states("alice", "bob") == {"RTS"}, "both to go on")
        time.sleep(0.6)  # the page of a program is as old as that, and the last cell repeated by then
        repeated = self.repeated("alice") - base
        capture.send_signal(signal.SIGINT)
        said = self.end_of(capture)
        self.assertNotIn("missed", said)
        _, packets = self.check(file)
        sends = [p for p in packets if p.direction == "out" and base_header(p.frame)[0] in SEND]
        self.assertEqual(sum("lost here: fault 1 (drop)" in p.comment for p in sends), 40)
        self.assertTrue(any("held back here: fault 2 (rate)" in p.comment for p in sends))
        numbers = collections.Counter(base_header(p.frame)[2] for p in sends)
        # The page of a program is read before the capture begins: a few repeats of a loaded machine lie between.
        self.assertAlmostEqual(sum(count - 1 for count in numbers.values()), repeated, delta=4)
        self.assertGreaterEqual(repeated, 40)

    def repeated(self, name):
        counters = json.loads(self.weft("stat", "--all", "--json")[1])["counters"]
        return sum(value for key, value in counters.items() if re.fullmatch(rf"{name}\.qp\.\w+\.cells_repeated", key))


class OutputTest(CaptureCase):
    def test_a_pipe_needs_no_option_and_ends_the_capture(self):
        self.pair()
        said = subprocess.run(["sh", "-c", f"'{self.bin}/weft' capture alice | head -c 5000 | wc -c"], capture_output=True, text=True,
                              timeout=30, env=self.environment, stdin=subprocess.DEVNULL)
        self.assertEqual(said.stdout.strip(), "5000")
        self.assertRegex(said.stderr, r"packets captured")

    def test_a_terminal_is_refused(self):
        main, terminal = os.openpty()
        try:
            done = subprocess.run([self.bin / "weft", "capture", "alice"], stdin=subprocess.DEVNULL, stdout=terminal,
                                  stderr=subprocess.PIPE, text=True, timeout=30, env=self.environment)
        finally:
            os.close(main)
            os.close(terminal)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output is a terminal: name a file with -o FILE.pcapng", done.stderr)

    @unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
    def test_live_into_tshark(self):
        self.pair()
        said = subprocess.run(["sh", "-c", f"'{self.bin}/weft' capture alice -c 30 | tshark -n -r - -T fields -e infiniband.bth.opcode"],
                              capture_output=True, text=True, timeout=60, env=dict(self.environment, HOME="/nonexistent"))
        opcodes = [int(word) for word in said.stdout.split()]
        self.assertEqual(len(opcodes), 30, said.stderr)
        self.assertLessEqual(set(opcodes), {0x04, ACK})

    def test_a_name_that_does_not_come_can_be_given_up(self):
        capture, file = self.capture("nobody", "-t", "1")
        said = self.end_of(capture)
        self.assertIn("there is no node 'nobody'", said)
        self.assertIn("waiting for a program of that name", said)
        self.assertIn("0 packets captured", said)
        self.assertEqual(read_cells(file.read_bytes()), ({1}, ["nobody"], []))

    def test_snaplen_keeps_headers_of_whole_packets(self):
        self.pair()
        capture, file = self.capture("alice", "-c", "10", "-s", "62")
        self.end_of(capture)
        packets = read_packets(file.read_bytes())
        self.assertEqual({len(p.frame) for p in packets}, {62})
        self.assertLessEqual({base_header(p.frame)[0] for p in packets}, {0x04, ACK})

    def test_a_host_shows_packets_on_request(self):
        self.up()
        file = self.path / "host.pcapng"
        capture = self.start("capture", "h1", "--packets", "-o", file, "-c", "20", stderr=subprocess.PIPE)
        harness.wait_for(lambda: file.exists() and self.weft("traffic", "--json", "-n", 50)[0] == 0, "frames")
        self.end_of(capture)
        self.assertIn(0x0B, {base_header(p.frame)[0] for p in read_packets(file.read_bytes())}, "a write with immediate data")
        self.weft("down")


@unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
class DissectorTest(CaptureCase):
    @staticmethod
    def pcap(path, link_type, *packets):
        blocks = b"".join(struct.pack("=IIII", 0, 0, len(each), len(each)) + each for each in packets)
        path.write_bytes(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type) + blocks)
        return path

    def fields(self, file, *names):
        lines = tshark(file, "-X", f"lua_script:{LUA}", "-T", "fields", *(word for name in names for word in ("-e", name)))
        return [line.split("\t") for line in lines]

    def test_cells_of_a_program(self):
        self.pair()
        capture, file = self.capture("alice", "--cells", "-c", "40")
        self.end_of(capture)
        kinds, _, cells = read_cells(file.read_bytes())
        self.assertEqual(kinds, {DLT_USER0})
        expected = [[str(int.from_bytes(cell[10:12], "big")), hex(int.from_bytes(cell[25:28], "big")), f"0x{cell[13]:02x}"]
                    for _, cell in cells]
        seen = [[slid, hex(int(psn, 0)), opcode] for slid, psn, opcode in self.fields(file, "weft.src_lid", "weft.psn", "weft.opcode")]
        self.assertEqual(seen, expected)
        self.assertEqual(tshark(file, "-X", f"lua_script:{LUA}", "-Y", "_ws.malformed || _ws.lua.error || weft.short"), [])

    def test_bytes_of_the_documents(self):
        """The worked examples of docs/wire_format.md; then cut ones."""
        cell = self.pcap(self.path / "cell.pcap", 147, GOLDEN_CELL)
        self.assertEqual(self.fields(cell, "weft.va", "weft.rkey", "weft.idata", "weft.crc"),
                         [["0x5c3a71e6d0421500", "0x2a9e4c01", "0x07050100", "0x150001a6"]])
        flit = self.pcap(self.path / "flit.pcap", 148, GOLDEN_FLIT, bytes.fromhex("20000000010300fe0100000779fcc258"))
        self.assertEqual(self.fields(flit, "weft_flit.kind", "weft_flit.sequence", "weft_flit.credit", "weft.rkey"),
                         [["0", "258", "64", "0x2a9e4c01"], ["2", "259", "7", ""]])
        cut = [GOLDEN_CELL[:length] for length in range(len(GOLDEN_CELL))]
        file = self.pcap(self.path / "cut.pcap", 147, *cut[1:])
        self.assertEqual(len(tshark(file, "-X", f"lua_script:{LUA}", "-Y", "weft.short")), len(cut) - 1)
        self.assertEqual(tshark(file, "-X", f"lua_script:{LUA}", "-Y", "_ws.lua.error"), [])

    def test_sessions_of_a_host(self):
        """The unit dies and comes back: the capture sees the two meet, and messages of the driver in their form of bytes."""
        self.file.write_text(ECHO.replace('name = "h1"\n', 'name = "h1"\nencoding = "bytes"\n'))
        self.up()
        file = self.path / "session.pcapng"
        capture = self.start("capture", "h1", "--cells", "-o", file, stderr=subprocess.PIPE)
        harness.wait_for(lambda: file.exists() and file.stat().st_size > 0, "the capture to begin")
        os.kill(self.record()["u1"], signal.SIGKILL)
        harness.wait_for(lambda: any(cell[13] == 0x21 and cell[56:58] == b"\x00\x13" for _, cell in read_cells(file.read_bytes())[2]),
                         "a REP to pass")
        time.sleep(1.5)  # its RTU, and messages of the driver: keep-alives at the latest
        capture.send_signal(signal.SIGINT)
        self.end_of(capture)
        kinds = {kind for (kind,) in self.fields(file, "weft.session.kind") if kind}
        self.assertLessEqual({"0x0010", "0x0013", "0x0014"}, kinds)
        self.assertTrue({function for (function,) in self.fields(file, "weft.driver.function")} - {""})
        self.weft("down")

    def test_a_session_opens_by_infinibands_connection_management(self):
        """Wireshark's own dissector reads the connect of a host and its unit."""
        self.up()
        file = self.path / "connect.pcapng"
        capture = self.start("capture", "h1", "--packets", "-o", file, stderr=subprocess.PIPE)
        harness.wait_for(lambda: file.exists() and file.stat().st_size > 0, "the capture to begin")
        os.kill(self.record()["u1"], signal.SIGKILL)
        seen = []

        def opened():
            seen[:] = [int(each, 16) for each in tshark(file, "-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields", "-e",
                                                        "infiniband.mad.attributeid")]
            return 0x13 in seen and 0x14 in seen[seen.index(0x13):]

        harness.wait_for(opened, "REP and RTU to pass")
        capture.send_signal(signal.SIGINT)
        self.end_of(capture)
        self.assertIn(0x10, seen[:seen.index(0x13)], "REQ")
        requests = tshark(file, "-Y", "infiniband.cm.req", "-T", "fields", "-e", "infiniband.cm.req.serviceid")
        self.assertEqual({int(each, 0) for each in requests}, {0x0200000057454654})
        self.assertEqual(tshark(file, "-Y", "infiniband.mad && _ws.malformed"), [])
        self.weft("down")

    def record(self):
        text = (self.state / "t" / "run").read_text()
        return {name: int(pid) for name, pid in re.findall(r"^process (\S+) \S+ (\d+)", text, re.M)}


if __name__ == "__main__":
    unittest.main()
