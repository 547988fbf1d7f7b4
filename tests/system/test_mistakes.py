"""The three programs that most beginners write, each mistake planted, and what both sides say of it with WEFT_DEBUG."""
import re
import subprocess
import unittest

import harness
from weft_case import SOURCE, WeftCase

PROGRAMS = harness.BIN.parent / "tests"
FABRIC = 'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n'
NOTHING = ""
ADDRESS = "192.0.2.7"

# Program, mistake, what the client prints, a line of the client's explanation, a line of the server's.
VERBS = [
    ("send_receive", "nothing", "success, vendor_err 0", NOTHING, NOTHING),
    ("send_receive", "wrong lkey", "local protection error, vendor_err 0x10",
     r"QP 0x\w+: send wr_id 0xa to LID \d+ QP 0x\w+: local protection error, vendor_err 0x10\d: .*\(lkey 0x\w+, 64 bytes at 0x\w+.*\); "
     r"take mr->lkey", NOTHING),
    ("send_receive", "freed region", "local protection error, vendor_err 0x101",
     "no memory region has this lkey: it was never registered, or was deregistered .*call ibv_dereg_mr only after the request has completed", NOTHING),
    ("send_receive", "wrong PD", "local protection error, vendor_err 0x103",
     "the memory region belongs to another protection domain than the QP .*; register the memory and create the QP with the same ibv_pd",
     NOTHING),
    ("send_receive", "out of bounds", "local protection error, vendor_err 0x105",
     r"the segment is not within its memory region \(lkey 0x\w+, 4097 bytes at 0x\w+; the region has 4096 bytes at 0x\w+\); check sge.addr",
     NOTHING),
    ("send_receive", "no local write", "remote operation error, vendor_err 0x503",
     "the peer cannot reach its own memory for this request; its receive request may have a wrong lkey",
     r"QP 0x\w+ refuses send of LID \d+ QP 0x\w+, receive wr_id 0xb: local protection error, vendor_err 0x106: the memory region does not "
     "allow this adapter to write .*; register it with IBV_ACCESS_LOCAL_WRITE"),
    ("send_receive", "no receive", "RNR retry counter exceeded, vendor_err 0x504",
     r"the peer has no receive request posted \(asked 7 times\); post receives there before sending; rnr_retry 7 waits for ever",
     "no receive request is posted; post receives before the peer sends"),
    ("send_receive", "receive too short", "remote invalid request error, vendor_err 0x502",
     "the peer does not take this request; .*its receive may be too short",
     r"receive wr_id 0xb: local length error, vendor_err 0x707: the message is longer than the receive request \(message of 64 bytes or "
     r"more, receive of 32\); post receives as long as the longest message"),
    ("send_receive", "wrong QP number", "transport retry counter exceeded, vendor_err 0x601",
     r"the peer has never answered \(\d+ ms, 3 retries\); compare dlid and dest_qp_num with the peer's LID and QP number",
     r"QP 0x\w+ refuses send of LID \d+ QP 0x\w+, vendor_err 0x801: this process has no QP of this number; the sender's dest_qp_num"),
    ("send_receive", "wrong LID", "transport retry counter exceeded, vendor_err 0x601",
     "to LID 8738 QP .*the peer has never answered .*weft devices lists LIDs", NOTHING),
    ("send_receive", "wrong PSN", "transport retry counter exceeded, vendor_err 0x603",
     "the peer acknowledges other packet numbers .*sq_psn of each side must be rq_psn of the other",
     r"the packet number is not the one that the QP expects \(expected 0x2000, came 0x7000\); the sender's sq_psn must be this side's rq_psn"),
    ("send_receive", "server not ready", "transport retry counter exceeded, vendor_err 0x601",
     "its QP must be in RTR or RTS", r"the QP does not receive in its state \(INIT\); move it to RTR before the peer sends"),
    ("send_receive", "client not ready", "ibv_post_send: Invalid argument",
     r"ibv_post_send: QP 0x\w+: the QP is in state INIT: requests are taken from RTS on", NOTHING),
    ("send_receive", "too many segments", "ibv_post_send: Invalid argument",
     r"\d+ segments, and the QP was made for at most \d+ \(max_send_sge\)", NOTHING),
    ("send_receive", "inline too long", "ibv_post_send: Invalid argument",
     r"\d+ bytes inline, and the QP was made for at most \d+ \(max_inline_data\)", NOTHING),
    ("send_receive", "CQ too small", "CQ error",
     "a completion queue of the QP was full and has lost a completion; create it with cqe for all requests", NOTHING),
    ("remote_memory", "nothing", "success, vendor_err 0", NOTHING, NOTHING),
    ("remote_memory", "wrong rkey", "remote access error, vendor_err 0x501",
     r"RDMA write wr_id 0xa to LID \d+ QP 0x\w+: remote access error, vendor_err 0x501: the peer refuses this rkey, address and length "
     r"\(rkey 0x\w+, 64 bytes at 0x\w+\); the rkey must be mr->rkey of a region",
     r"refuses RDMA write of LID \d+ QP 0x\w+, vendor_err 0x20\d: .*\(rkey 0x\w+, 64 bytes at 0x\w+\); (send the peer mr->rkey|call ibv_dereg_mr only)"),
    ("remote_memory", "freed region", "remote access error, vendor_err 0x501", "the peer refuses this rkey, address and length",
     "no memory region here has this rkey: it was never registered, or was deregistered .*call ibv_dereg_mr only after the peer has finished"),
    ("remote_memory", "wrong PD", "remote access error, vendor_err 0x501", "in the PD of the peer's QP",
     "the memory region belongs to another protection domain than the QP"),
    ("remote_memory", "out of bounds", "remote access error, vendor_err 0x501", "holds the range",
     r"the address range is not within the memory region \(rkey 0x\w+, 64 bytes at 0x\w+; the region has 4096 bytes at 0x\w+\)"),
    ("remote_memory", "region without remote write", "remote access error, vendor_err 0x501", "grants the right",
     "the memory region does not grant this kind of remote access .*; register it with IBV_ACCESS_REMOTE_WRITE"),
    ("remote_memory", "QP without remote write", "remote invalid request error, vendor_err 0x502",
     "its QP may lack the right in qp_access_flags", "the QP does not grant this kind of remote access .*; set IBV_ACCESS_REMOTE_"),
    ("remote_memory", "no reads allowed", "local QP operation error, vendor_err 0x402",
     "the QP may have no RDMA read or atomic in flight .*; set max_rd_atomic to 1 or more", NOTHING),
    ("remote_memory", "read into constant memory", "local protection error, vendor_err 0x106",
     "does not allow this adapter to write .*; register it with IBV_ACCESS_LOCAL_WRITE: receives, reads and atomics write", NOTHING),
    ("remote_memory", "misaligned atomic", "remote invalid request error, vendor_err 0x502", "an atomic may be misaligned",
     "refuses atomic .*the address of an atomic operation is no multiple of 8"),
]
CONNECTIONS = [
    ("nothing", "RDMA_CM_EVENT_ESTABLISHED 0", NOTHING, NOTHING),
    ("other port", "RDMA_CM_EVENT_REJECTED 8",
     r"REJECTED, status 8: 192.0.2.7 port 7470 \(LID \d+\): the endnode is there, and no program listens at this port; start the server first",
     r"LID \d+ asks for a connection to 192.0.2.7 port 7470: no program of this process listens there"),
    ("rejected", "RDMA_CM_EVENT_REJECTED 28", "the program there has called rdma_reject; ask that program", NOTHING),
    ("private data too long", "rdma_connect: Invalid argument",
     "rdma_cm: CONNECT: Invalid argument: private_data_len: a connection request has room for 56 bytes", NOTHING),
]


def mistake_ends_client_alone(program, of_client):
    """A server of connection management waits for the next client."""
    return program == "connect" and of_client != NOTHING


@unittest.skipUnless((PROGRAMS / "send_receive").exists(), "libibverbs-dev was missing when this tree was built")
class MistakesTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.environment["WEFT_DEBUG"] = "verbs,cm"
        self.up(FABRIC)

    def begin(self, program, role, *arguments):
        """The server of connection management is the endnode that has the address."""
        address = [f"WEFT_IP={ADDRESS}"] if (program, role) == ("connect", "server") else []
        return self.start("run", "--fabric", "t", "--", "env", *address, PROGRAMS / program, role, *arguments, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)

    def expect(self, who, wanted, said):
        """One line of the explanation, or none at all."""
        # But for joining and listening, and what the launcher says.
        lines = [line for line in said.splitlines() if " info " not in line and not line.startswith("weft run: ")]
        if wanted == NOTHING:
            self.assertEqual(lines, [], f"{who} has nothing to explain")
            return
        self.assertTrue([line for line in lines if re.search(wanted, line)], f"{who}: no line has\n{wanted}\nin\n{said}")

    def check(self, program, server_words, client_words, wanted):
        printed, of_client, of_server = wanted
        server = self.begin(program, *server_words)
        if program == "connect":
            self.assertEqual(server.stdout.readline(), "listens\n", server.stderr)
        client = self.begin(program, *client_words)
        out, client_said = client.communicate(timeout=60)
        if mistake_ends_client_alone(program, of_client):
            server.terminate()
        server_out, server_said = server.communicate(timeout=60)
        self.assertIn(printed, out, f"{client_said}\nserver: {server_out}{server_said}")
        self.expect("client", of_client, client_said)
        self.expect("server", of_server, server_said)

    def test_programs_of_the_verbs(self):
        for number, (program, mistake, *wanted) in enumerate(VERBS):
            with self.subTest(f"{program}: {mistake}"):
                path = self.path / f"link-{number}"
                self.check(program, ("server", path, mistake), ("client", path, mistake), wanted)

    def test_programs_of_connection_management(self):
        for mistake, *wanted in CONNECTIONS:
            with self.subTest(mistake):
                self.check("connect", ("server", ADDRESS, mistake), ("client", ADDRESS, mistake), wanted)

    def test_an_address_that_nobody_has(self):
        client = self.begin("connect", "client", "203.0.113.9", "nothing")
        out, said = client.communicate(timeout=60)
        self.assertIn("RDMA_CM_EVENT_ADDR_ERROR -110", out)
        self.expect("client", r"ADDR_ERROR, status -110: 203.0.113.9 port 7470: no endnode of this fabric has answered for this address; "
                    "weft devices lists the addresses", said)


    def test_a_fault_in_force_is_named(self):
        """One that strikes both programs, and one that waits for the address."""
        code, _, errors = self.weft("fault", "s1", "cut", "--fabric", "t")
        self.assertEqual(code, 0, errors)
        self.check("send_receive", ("server", self.path / "link", "nothing"), ("client", self.path / "link", "nothing"),
                   ("transport retry counter exceeded, vendor_err 0x601",
                    r"the peer has never answered .*; fault s1:1 is in force for the whole switch and has struck \d+ cells", NOTHING))
        _, said = self.begin("connect", "client", ADDRESS, "nothing").communicate(timeout=60)
        self.expect("client", r"ADDR_ERROR, status -110: .*; fault s1:1 is in force for the whole switch and has struck \d+ cells", said)


class ReasonsTest(unittest.TestCase):
    """The manual page of the numbers, which programs print and people look up."""

    def test_every_reason_is_documented_in_the_words_that_programs_say(self):
        documented = (SOURCE / "docs" / "verbs.md").read_text()
        header = (SOURCE / "messages" / "failure.h").read_text()
        codes = re.findall(r"^  k\w+ = 0x([0-9A-F]+),", header, re.MULTILINE)
        self.assertGreater(len(codes), 60)
        for code in codes:
            if not code.endswith("00"):
                self.assertIn(f"| 0x{code} | ", documented)


if __name__ == "__main__":
    unittest.main()
