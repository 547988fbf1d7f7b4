"""The handshake of a link, made by hand (messages/link_hello.h): a joining node, or a switch, that speaks as it likes."""
import os
import socket
import struct

WIRE = struct.Struct("!IBBHHHHHQQIIHHH18x")
MAGIC = 0x57454654
HELLO, WELCOME, REFUSE = 1, 2, 3
CELL_OVERHEAD_BYTES = 104  # messages/cell.h: a flit that holds the largest cell
REFUSED_VERSION, REFUSED_CELL_PAYLOAD, REFUSED_LID_TAKEN, REFUSED_LID_INVALID, REFUSED_NOT_ALLOWED = 1, 3, 5, 6, 8


class Message:
    """One of HELLO, WELCOME, REFUSE in host order."""

    FIELDS = ("magic", "kind", "refusal", "version_min", "version_max", "lid", "port", "flags", "guid", "boot_nonce",
              "flit_payload_bytes", "cell_payload_bytes", "lanes", "credits_per_lane", "subnet")

    def __init__(self, **fields):
        self.magic, self.kind, self.refusal, self.version_min, self.version_max = MAGIC, HELLO, 0, 1, 1
        self.lid = self.port = self.flags = self.guid = self.subnet = 0
        self.boot_nonce = int.from_bytes(os.urandom(8), "big") | 1
        self.cell_payload_bytes = 1024
        self.lanes, self.credits_per_lane = 4, 32
        self.__dict__.update(fields)
        if "flit_payload_bytes" not in fields:
            self.flit_payload_bytes = self.cell_payload_bytes + CELL_OVERHEAD_BYTES

    def encode(self):
        return WIRE.pack(*(getattr(self, field) for field in self.FIELDS))

    @classmethod
    def decode(cls, data):
        return cls(**dict(zip(cls.FIELDS, WIRE.unpack(data))))


def join(path, message, seconds=5.0):
    """Says HELLO (or any bytes) on the socket of a switch: (answer or None when it hangs up, the open connection)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(seconds)
    connection.connect(str(path))
    connection.send(message.encode() if isinstance(message, Message) else message)
    try:
        data = connection.recv(4096)
    except ConnectionError:
        data = b""
    return (Message.decode(data) if len(data) == WIRE.size else None), connection


class FakeSwitch:
    """Listens where a switch would and answers every HELLO with what `answer(hello)` returns."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen(4)
        self.listener.settimeout(10.0)

    def serve_one(self, answer):
        peer, _ = self.listener.accept()
        with peer:
            peer.settimeout(10.0)
            hello = Message.decode(peer.recv(4096))
            peer.send(answer(hello).encode())
            return hello

    def close(self):
        self.listener.close()
