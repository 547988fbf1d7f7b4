"""Ethernet frames a test sends through the fabric itself, over the `unix:` interface of a host: UDP to the echo object of
the LAN, each with a sequence number and a checksum of its own, so that a lost, repeated, reordered or damaged frame is told
apart without trusting any code under test."""
import array
import fcntl
import select
import socket
import struct
import time
import zlib

ECHO_MAC = bytes.fromhex("02000000ec00")  # the LAN object of `--nic echo`
ECHO_IP = bytes([10, 77, 0, 1])
ECHO_PORT = 7
OWN_IP = bytes([10, 77, 0, 99])
OWN_PORT = 40000
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
SIOCETHTOOL = 0x8946
ETHTOOL_GLINK = 10
HEADERS = 14 + 20 + 8
STAMP = struct.Struct("!QI")  # sequence number, CRC-32 of what follows
FRAME_BYTES_MIN = HEADERS + STAMP.size
LENGTH = struct.Struct("!I")  # QEMU's -netdev stream


def internet_checksum(data):
    words = array.array("H", data + b"\0" * (len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("=H", ~total & 0xFFFF)


def echo_request(sequence, frame_bytes, own_mac):
    """A UDP frame to the echo object. The body is a function of the sequence number."""
    body_bytes = frame_bytes - FRAME_BYTES_MIN
    seed = struct.pack("!Q", sequence * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF)
    body = (seed * (body_bytes // 8 + 1))[:body_bytes]
    payload = STAMP.pack(sequence, zlib.crc32(body)) + body
    udp = struct.pack("!HHHH", OWN_PORT, ECHO_PORT, 8 + len(payload), 0) + payload
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), sequence & 0xFFFF, 0, 64, 17, 0) + OWN_IP + ECHO_IP
    checksum = internet_checksum(OWN_IP + ECHO_IP + struct.pack("!BBH", 0, 17, len(udp)) + udp)
    if checksum == b"\0\0":
        checksum = b"\xff\xff"
    ip = ip[:10] + internet_checksum(ip) + ip[12:]
    return ECHO_MAC + own_mac + b"\x08\x00" + ip + udp[:6] + checksum + udp[8:]


class FrameStream:
    """The test's end of a `unix:PATH` interface: 4 bytes length, then the frame, both ways.

    The host's end may go and come back (kill -9): the stream connects again by itself, and what was half written then is
    lost as on a cable."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = None
        self.inbox = bytearray()
        self.outbox = bytearray()

    def connected(self):
        if self.socket is not None:
            return True
        candidate = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            candidate.connect(self.path)
        except OSError:
            candidate.close()
            return False
        candidate.setblocking(False)
        self.socket = candidate
        return True

    def drop(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self.inbox.clear()
        self.outbox.clear()

    close = drop

    def send(self, frame):
        """False when the host does not take frames now; the frame then was not sent."""
        if not self.connected() or not self.drain_outbox():
            return False
        self.outbox += LENGTH.pack(len(frame)) + frame
        self.drain_outbox()
        return True

    def drain_outbox(self):
        while self.outbox:
            try:
                done = self.socket.send(self.outbox)
            except BlockingIOError:
                return False
            except OSError:
                self.drop()
                return False
            del self.outbox[:done]
        return True

    def receive(self, seconds=0.0):
        """Complete frames that have come; waits up to `seconds` for the first."""
        if not self.connected():
            time.sleep(min(seconds, 0.01))
            return []
        frames = self.split()
        if frames:
            return frames
        if not select.select([self.socket], [], [], seconds)[0]:
            return []
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.drop()
            return []
        self.inbox += data
        return self.split()

    def split(self):
        frames = []
        at = 0
        while len(self.inbox) - at >= LENGTH.size:
            size, = LENGTH.unpack_from(self.inbox, at)
            if len(self.inbox) - at < LENGTH.size + size:
                break
            frames.append(bytes(self.inbox[at + LENGTH.size:at + LENGTH.size + size]))
            at += LENGTH.size + size
        del self.inbox[:at]
        return frames


class PacketStream:
    """The same over an interface of a namespace: what is sent leaves the kernel through it (a TAP: to the host), what the
    host writes to it is received."""

    def __init__(self, namespace, interface):
        self.socket = namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((interface, 0))
        self.socket.setblocking(False)
        self.answer = array.array("I", [ETHTOOL_GLINK, 0])
        self.question = struct.pack("16sP16x", interface.encode(), self.answer.buffer_info()[0])

    def carrier(self):
        """True while somebody is behind the interface: a TAP without reader swallows what is sent."""
        fcntl.ioctl(self.socket, SIOCETHTOOL, self.question)
        return self.answer[1] != 0

    def close(self):
        self.socket.close()

    def send(self, frame):
        if not self.carrier():
            return False
        try:
            self.socket.send(frame)
        except OSError:  # the queue is full
            return False
        return True

    def receive(self, seconds=0.0):
        frames = []
        if select.select([self.socket], [], [], seconds)[0]:
            try:
                while len(frames) < 64:
                    frames.append(self.socket.recv(1 << 17))
            except OSError:
                pass
        return frames


class EchoTraffic:
    """Keeps `window` echo requests under way and judges what comes back."""

    def __init__(self, stream, mac=b"\x02\0\0\0\x77\x99", sizes=(98, 1514, 300), window=64, give_up_seconds=1.0,
                 limit=1 << 62):
        self.stream = stream
        self.sizes = sizes
        self.window = window
        self.give_up_seconds = give_up_seconds
        self.limit = limit  # frames to send at most
        self.mac = mac  # the host's own: a unit drops frames with a foreign source (decisions 2.22)
        self.sequence = 0
        self.waiting = {}   # sequence -> time sent
        self.answered = bytearray()  # one byte per sequence number
        self.received = self.lost = self.late = self.corrupted = self.duplicated = self.reordered = self.others = 0
        self.highest = -1

    def step(self, sending=True):
        """One turn: sends what the window allows, takes what has come. Returns the number of good answers."""
        now = time.monotonic()
        while sending and len(self.waiting) < self.window and self.sequence < self.limit:
            size = self.sizes[self.sequence % len(self.sizes)]
            if not self.stream.send(echo_request(self.sequence, size, self.mac)):
                break
            self.waiting[self.sequence] = now
            self.answered.append(0)
            self.sequence += 1
        good = sum(self.judge(frame) for frame in self.stream.receive(0.002))
        self.give_up_before(now - self.give_up_seconds)
        return good

    def give_up_before(self, instant):
        """Frames sent before it and not answered count as lost."""
        while self.waiting:
            sequence = next(iter(self.waiting))  # the oldest
            if self.waiting[sequence] >= instant:
                break
            del self.waiting[sequence]
            self.lost += 1

    def judge(self, frame):
        if len(frame) < FRAME_BYTES_MIN or frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[6:12] != ECHO_MAC:
            self.others += 1
            return False
        sequence, checksum = STAMP.unpack_from(frame, HEADERS)
        udp_bytes = struct.unpack_from("!H", frame, 38)[0]
        body = frame[FRAME_BYTES_MIN:34 + udp_bytes]
        expected = self.sizes[sequence % len(self.sizes)] - FRAME_BYTES_MIN
        if sequence >= self.sequence or len(body) != expected or zlib.crc32(body) != checksum or frame[:6] != self.mac:
            self.corrupted += 1
            return False
        if self.answered[sequence]:
            self.duplicated += 1
            return False
        self.answered[sequence] = 1
        if sequence < self.highest:
            self.reordered += 1
        self.highest = max(self.highest, sequence)
        if self.waiting.pop(sequence, None) is None:
            self.late += 1
            self.lost -= 1  # was given up too early
        self.received += 1
        return True

    def run(self, seconds):
        """Traffic for a while; returns the good answers of that time."""
        end = time.monotonic() + seconds
        good = 0
        while time.monotonic() < end:
            good += self.step()
        return good

    def run_frames(self, count, seconds=30.0):
        """Traffic until `count` more answers are good; AssertionError after `seconds`."""
        end = time.monotonic() + seconds
        good = 0
        while good < count:
            good += self.step()
            if time.monotonic() > end:
                raise AssertionError(f"{good} of {count} echo answers in {seconds} s; {self}")
        return good

    def drain(self, seconds=5.0):
        """Sends no more and waits until everything is answered or given up."""
        end = time.monotonic() + seconds
        while self.waiting and time.monotonic() < end:
            self.step(sending=False)

    def __str__(self):
        return (f"sent {self.sequence} received {self.received} lost {self.lost} late {self.late} "
                f"corrupted {self.corrupted} duplicated {self.duplicated} reordered {self.reordered} "
                f"waiting {len(self.waiting)}")
