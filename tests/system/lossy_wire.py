#!/usr/bin/env python3
"""A cable with delay and loss between two interfaces of one namespace, for kernels without netem.

  lossy_wire.py INTERFACE INTERFACE DELAY_MS LOSS_PERCENT SEED

Forwards every frame unchanged, after the delay, unless the seeded dice drop it; keeps the order. Ends with its parent."""
import collections
import ctypes
import random
import select
import signal
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
FRAME_BYTES_MAX = 65600


def open_interface(name):
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    packet.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    packet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    packet.bind((name, 0))
    packet.setblocking(False)
    return packet


def main():
    first, second, delay_ms, loss_percent, seed = sys.argv[1:]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    dice = random.Random(int(seed))
    delay, loss = float(delay_ms) / 1000, float(loss_percent) / 100
    left, right = open_interface(first), open_interface(second)
    other = {left: right, right: left}
    waiting = collections.deque()  # (due, socket, frame): one delay for all, so in order
    print("ready", flush=True)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for packet in select.select([left, right], [], [], timeout)[0]:
            for _ in range(64):
                try:
                    frame = packet.recv(FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                if dice.random() >= loss:
                    waiting.append((time.monotonic() + delay, other[packet], frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, packet, frame = waiting.popleft()
            try:
                packet.send(frame)
            except OSError:
                pass  # interface down or queue full: as on a cable


if __name__ == "__main__":
    main()
