"""The three programs that most beginners write, twenty mistakes and more planted in each, and what both sides say of them with
WEFT_DEBUG. A program that would wait for ever gives up after some seconds; what it waits for is said after two."""
import concurrent.futures
import re
import subprocess
import unittest

import harness
from weft_case import SOURCE, WeftCase

PROGRAMS = harness.BIN.parent / "tests"
FABRIC = 'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 32\n'
NOTHING = ""
ADDRESS = r"192\.0\.2\.\d+"
MISTAKES_AT_LEAST = 20  # of each program

# Mistake, what one of the two programs prints, a line of the client's explanation, a line of the server's.
SEND_RECEIVE = [
    ("nothing", "success, vendor_err 0", NOTHING, NOTHING),
    ("wrong lkey", "local protection error, vendor_err 0x10",
     r"QP 0x\w+: send wr_id 0xa to LID \d+ QP 0x\w+: local protection error, vendor_err 0x10\d: .*\(lkey 0x\w+, 64 bytes at 0x\w+.*\); "
     r"take mr->lkey", NOTHING),
    ("no lkey", "local protection error, vendor_err 0x101",
     r"no memory region has this lkey: .*\(lkey 0x0, 64 bytes at 0x\w+\); take mr->lkey", NOTHING),
    ("freed region", "local protection error, vendor_err 0x101",
     "no memory region has this lkey: it was never registered, or was deregistered .*call ibv_dereg_mr only after the request has completed", NOTHING),
    ("wrong PD", "local protection error, vendor_err 0x103",
     "the memory region belongs to another protection domain than the QP .*; register the memory and create the QP with the same ibv_pd",
     NOTHING),
    ("out of bounds", "local protection error, vendor_err 0x105",
     r"the segment is not within its memory region \(lkey 0x\w+, 4097 bytes at 0x\w+; the region has 4096 bytes at 0x\w+\); check sge.addr",
     NOTHING),
    ("no local write", "remote operation error, vendor_err 0x503",
     "the peer cannot reach its own memory for this request; its receive request may have a wrong lkey",
     r"QP 0x\w+ refuses send of LID \d+ QP 0x\w+, receive wr_id 0xb: local protection error, vendor_err 0x106: the memory region does not "
     "allow this adapter to write .*; register it with IBV_ACCESS_LOCAL_WRITE"),
    ("no receive", "RNR retry counter exceeded, vendor_err 0x504",
     r"the peer has no receive request posted \(asked 7 times\); post receives there before sending; rnr_retry 7 waits for ever",
     "no receive request is posted; post receives before the peer sends"),
    ("no receive and no limit", "waits for ever",
     r"send wr_id 0xa to LID \d+ QP 0x\w+.*: the request waits: the peer has no receive request posted \(for \d+ ms so far\); post receives "
     "there; rnr_retry 7 waits for ever", "no receive request is posted; post receives before the peer sends"),
    ("receive too short", "remote invalid request error, vendor_err 0x502",
     "the peer does not take this request; .*its receive may be too short",
     r"receive wr_id 0xb: local length error, vendor_err 0x707: the message is longer than the receive request \(message of 64 bytes or "
     r"more, receive of 32\); post receives as long as the longest message"),
    ("receive before INIT", "ibv_post_recv: Invalid argument",
     r"ibv_post_recv: QP 0x\w+: the QP is in state RESET: receives are taken from INIT on; call ibv_modify_qp first", NOTHING),
    ("wrong QP number", "transport retry counter exceeded, vendor_err 0x601",
     r"the peer has never answered \(\d+ ms, 3 retries\); compare dlid and dest_qp_num with the peer's LID and QP number",
     r"QP 0x\w+ refuses send of LID \d+ QP 0x\w+, vendor_err 0x801: this process has no QP of this number; the sender's dest_qp_num"),
    ("wrong LID", "transport retry counter exceeded, vendor_err 0x601",
     "to LID 8738 QP .*the peer has never answered .*weft devices lists LIDs", NOTHING),
    ("wrong PSN", "transport retry counter exceeded, vendor_err 0x603",
     "the peer acknowledges other packet numbers .*sq_psn of each side must be rq_psn of the other",
     r"the packet number is not the one that the QP expects \(expected 0x2000, came 0x7000\); the sender's sq_psn must be this side's rq_psn"),
    ("wrong port", "ibv_modify_qp: Invalid argument",
     r"ibv_modify_qp: QP 0x\w+: RESET to INIT: port_num 2 out of range: a port of the device, from 1", NOTHING),
    ("MTU in bytes", "ibv_modify_qp: Invalid argument",
     r"ibv_modify_qp: QP 0x\w+: path_mtu must be a code, not a number of bytes: IBV_MTU_256 \(1\) to IBV_MTU_4096 \(5\), and is 1024", NOTHING),
    ("no MTU in the mask", "ibv_modify_qp: Invalid argument",
     r"ibv_modify_qp: QP 0x\w+: INIT to RTR: attr_mask lacks IBV_QP_PATH_MTU; set path_mtu and add the bit$", NOTHING),
    ("RTR skipped", "ibv_modify_qp: Invalid argument",
     "INIT to RTS: there is no such move: a QP goes RESET, INIT, RTR, RTS, one step for each ibv_modify_qp", NOTHING),
    ("server not ready", "transport retry counter exceeded, vendor_err 0x601",
     "its QP must be in RTR or RTS", r"the QP does not receive in its state \(INIT\); move it to RTR before the peer sends"),
    ("client not ready", "ibv_post_send: Invalid argument",
     r"ibv_post_send: QP 0x\w+: the QP is in state INIT: requests are taken from RTS on; call ibv_modify_qp to RTR and RTS first", NOTHING),
    ("too many segments", "ibv_post_send: Invalid argument",
     r"\d+ segments, and the QP was made for at most \d+ \(max_send_sge\)", NOTHING),
    ("inline too long", "ibv_post_send: Invalid argument",
     r"\d+ bytes inline, and the QP was made for at most \d+ \(max_inline_data\)", NOTHING),
    ("queue full", "ibv_post_send: Cannot allocate memory",
     r"the send queue is full: 64 requests \(max_send_wr\) whose completions were not polled; call ibv_poll_cq", NOTHING),
    ("CQ too small", "CQ error",
     "a completion queue of the QP was full and has lost a completion; create it with cqe for all requests", NOTHING),
    ("not signalled", "waits for ever",
     r"ibv_poll_cq: the CQ has been empty for 2 s of polls; QP 0x\w+ \(RTS\): 1 send request has ended without IBV_SEND_SIGNALED and gives "
     "no completion .set it in send_flags, or sq_sig_all", NOTHING),
    ("status ignored", "Work Request Flushed Error, vendor_err 0x10", r"send wr_id 0xa .*: local protection error, vendor_err 0x10\d: .*; take mr->lkey", NOTHING),
    ("CQ not armed", "waits for ever",
     "ibv_get_cq_event: waits for ever, because no CQ of this completion channel is armed: call ibv_req_notify_cq before the wait", NOTHING),
    ("event not acknowledged", "waits for ever",
     "ibv_destroy_cq: waits until each event of this CQ that ibv_get_cq_event has returned is acknowledged: call ibv_ack_cq_events", NOTHING),
    ("PD in use", "ibv_dealloc_pd: Device or resource busy",
     r"ibv_dealloc_pd: PD \d+: regions, QPs, SRQs, windows or address handles of this PD still exist: destroy them first", NOTHING),
    ("child after fork", "ibv_post_send: Input/output error",
     r"ibv_post_send: QP 0x\w+: this process is a child after fork\(\), and the object belongs to its parent: open the device in the child",
     NOTHING),
]
REMOTE_MEMORY = [
    ("nothing", "success, vendor_err 0", NOTHING, NOTHING),
    ("wrong rkey", "remote access error, vendor_err 0x501",
     r"RDMA write wr_id 0xa to LID \d+ QP 0x\w+: remote access error, vendor_err 0x501: the peer refuses this rkey, address and length "
     r"\(rkey 0x\w+, 64 bytes at 0x\w+\); the rkey must be mr->rkey of a region",
     r"refuses RDMA write of LID \d+ QP 0x\w+, vendor_err 0x20\d: .*\(rkey 0x\w+, 64 bytes at 0x\w+\); (send the peer mr->rkey|call ibv_dereg_mr only)"),
    ("own rkey", "remote access error, vendor_err 0x501", "the peer refuses this rkey, address and length .*registered there",
     r"refuses RDMA write of LID \d+ QP 0x\w+, vendor_err 0x20\d: .*\(rkey 0x\w+, 64 bytes at 0x\w+\); (send the peer mr->rkey|call ibv_dereg_mr only)"),
    ("no rkey", "ibv_post_send: Invalid argument",
     r"ibv_post_send: QP 0x\w+: rkey 0x0: the request needs mr->rkey and the address of the peer's region; the peer has to send both", NOTHING),
    ("rkey as lkey", "local protection error, vendor_err 0x10", r"vendor_err 0x10\d: .*\(lkey 0x\w+, 64 bytes at 0x\w+\); take mr->lkey", NOTHING),
    ("freed region", "remote access error, vendor_err 0x501", "the peer refuses this rkey, address and length",
     "no memory region here has this rkey: it was never registered, or was deregistered .*call ibv_dereg_mr only after the peer has finished"),
    ("wrong PD", "remote access error, vendor_err 0x501", "in the PD of the peer's QP",
     "the memory region belongs to another protection domain than the QP"),
    ("out of bounds", "remote access error, vendor_err 0x501", "holds the range",
     r"the address range is not within the memory region \(rkey 0x\w+, 64 bytes at 0x\w+; the region has 4096 bytes at 0x\w+\)"),
    ("address of another buffer", "remote access error, vendor_err 0x501", "holds the range",
     r"the address range is not within the memory region \(rkey 0x\w+, 64 bytes at 0x\w+; the region has 4096 bytes at 0x\w+\); "
     "check the address and length that the peer uses"),
    ("region without remote write", "remote access error, vendor_err 0x501", "grants the right",
     "the memory region does not grant this kind of remote access .*; register it with IBV_ACCESS_REMOTE_WRITE"),
    ("region without remote read", "remote access error, vendor_err 0x501", r"RDMA read wr_id 0xa .*grants the right",
     "refuses RDMA read .*the memory region does not grant this kind of remote access .*; register it with IBV_ACCESS_REMOTE_WRITE, _READ or"),
    ("region without remote atomic", "remote access error, vendor_err 0x501", r"atomic wr_id 0xa .*grants the right",
     "refuses atomic .*the memory region does not grant this kind of remote access .*; register it with IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC"),
    ("QP without remote write", "remote invalid request error, vendor_err 0x502",
     "its QP may lack the right in qp_access_flags", "the QP does not grant this kind of remote access .*; set IBV_ACCESS_REMOTE_"),
    ("remote write without local write", "ibv_reg_mr: Invalid argument",
     "ibv_reg_mr: access 0x2: remote write and atomic need local write: add IBV_ACCESS_LOCAL_WRITE", NOTHING),
    ("constant memory", "ibv_reg_mr: Bad address",
     r"ibv_reg_mr: 4096 bytes at 0x\w+: the memory is not there, or is read-only \(a string constant, a const array\) and access 0xf has "
     "IBV_ACCESS_LOCAL_WRITE", NOTHING),
    ("read into constant memory", "local protection error, vendor_err 0x106",
     "does not allow this adapter to write .*; register it with IBV_ACCESS_LOCAL_WRITE: receives, reads and atomics write", NOTHING),
    ("no reads allowed", "local QP operation error, vendor_err 0x402",
     "the QP may have no RDMA read or atomic in flight .*; set max_rd_atomic to 1 or more", NOTHING),
    ("no reads served", "remote invalid request error, vendor_err 0x502", "the peer does not take this request",
     "refuses RDMA read .*the QP serves no RDMA reads and atomics; set max_dest_rd_atomic to 1 or more in ibv_modify_qp to RTR"),
    ("inline read", "ibv_post_send: Invalid argument",
     "IBV_SEND_INLINE is for data that leave this side; a read or atomic brings data: drop the flag", NOTHING),
    ("misaligned atomic", "remote invalid request error, vendor_err 0x502", "an atomic may be misaligned",
     "refuses atomic .*the address of an atomic operation is no multiple of 8"),
    ("short atomic", "ibv_post_send: Invalid argument", "1 segment of 4 bytes: an atomic operation has one segment of 8 bytes", NOTHING),
    ("immediate data without receive", "RNR retry counter exceeded, vendor_err 0x504",
     r"RDMA write wr_id 0xa .*: the peer has no receive request posted .*\(asked 7 times\); post receives there before sending",
     r"QP 0x\w+ refuses RDMA write of LID \d+ QP 0x\w+, vendor_err 0x706: no receive request is posted; post receives before the peer sends"),
    ("server waits for a write", "waits for ever", NOTHING,
     r"ibv_poll_cq: the CQ has been empty for 2 s of polls; QP 0x\w+ \(RTS\): no request of this QP waits; nothing can complete here: post a "
     "request first. A peer's RDMA write, read or atomic makes no completion on this side; IBV_WR_RDMA_WRITE_WITH_IMM and sends do"),
    ("server has ended", "transport retry counter exceeded, vendor_err 0x60", "the peer has never answered .*its process must run", NOTHING),
]
# The client and the server of each have an address of their own.
CONNECT = [
    ("nothing", "RDMA_CM_EVENT_ESTABLISHED 0", NOTHING, NOTHING),
    ("other port", "RDMA_CM_EVENT_REJECTED 8",
     r"REJECTED, status 8: ADDRESS port 7470 \(LID \d+\): the endnode is there, and no program listens at this port; "
     "start the server first",
     r"LID \d+ asks for a connection to ADDRESS port 7470: no program of this process listens there"),
    ("htons forgotten", "RDMA_CM_EVENT_REJECTED 8", "REJECTED, status 8: ADDRESS port 11805 .*compare the ports .sin_port is htons.port..",
     "ADDRESS port 11805: this program listens at port 7470, which is the same number with its bytes exchanged; one side lacks htons()"),
    ("listen forgotten", "RDMA_CM_EVENT_REJECTED 8", "no program listens at this port",
     r"LID \d+ asks for a connection to ADDRESS port 7470: an rdma_cm_id is bound there and does not listen; call rdma_listen"),
    ("listens elsewhere", "RDMA_CM_EVENT_REJECTED 28", "has called rdma_reject, or listens at another address or for another type of QP",
     r"asks for a connection to ADDRESS port 7470: this program listens at 127.0.0.1 port 7470 only; pass the address that clients use"),
    ("other port space", "RDMA_CM_EVENT_REJECTED 8", "no program listens at this port",
     "this program listens at this port in another port space; rdma_create_id needs the same on both sides"),
    ("backlog full", "waits for ever", "waits for an answer: the program there has to call rdma_get_cm_event and then rdma_accept or rdma_reject",
     "the backlog of rdma_listen is full of requests that this program has not taken; call rdma_get_cm_event"),
    ("rejected", "RDMA_CM_EVENT_REJECTED 28", "the program there has called rdma_reject, or listens .*; ask that program", NOTHING),
    ("foreign address", "rdma_bind_addr: Cannot assign requested address",
     "rdma_cm: BIND_IP: Cannot assign requested address: the address is not one of this endnode or its host; weft devices lists them", NOTHING),
    ("port in use", "rdma_bind_addr: Address already in use",
     "rdma_cm: BIND_IP: Address already in use: another id, or another process of this host, has the port", NOTHING),
    ("resolves twice", "rdma_resolve_addr: Invalid argument",
     "rdma_cm: RESOLVE_IP: Invalid argument: the id has an address already, listens or is connected; make another id for each peer", NOTHING),
    ("route forgotten", "waits for ever",
     r"rdma_get_cm_event has waited 2 s for an event: the address of ADDRESS port 7470 \(LID \d+\) is resolved: call rdma_resolve_route",
     NOTHING),
    ("connects too early", "rdma_connect: Invalid argument",
     "rdma_cm: CONNECT: Invalid argument: the route is not resolved yet, or the id is connected; wait for RDMA_CM_EVENT_ROUTE_RESOLVED", NOTHING),
    ("connect forgotten", "waits for ever",
     r"rdma_get_cm_event has waited 2 s for an event: the route to ADDRESS port 7470 \(LID \d+\) is resolved: call rdma_create_qp and rdma_connect",
     NOTHING),
    ("private data too long", "rdma_connect: Invalid argument",
     "rdma_cm: CONNECT: Invalid argument: private_data_len: a connection request has room for 56 bytes", NOTHING),
    ("other channel", "waits for ever",
     "rdma_get_cm_event has waited 2 s for an event: no rdma_cm_id has this event channel; wait at the channel that rdma_create_id got", None),
    ("accepts the listener", "rdma_accept: Invalid argument", None,
     "rdma_cm: ACCEPT: Invalid argument: the id has no connection request; pass the id of the event, event->id"),
    ("accept without QP", "RDMA_CM_EVENT_CONNECT_REQUEST 0", None,
     r"rdma_cm: ACCEPT: done: the answer names no QP \(qp_num 0\), so the peer cannot reach one; call rdma_create_qp before rdma_accept"),
    ("accept forgotten", "waits for ever",
     r"the connection request to ADDRESS port 7470 \(LID \d+\) waits for an answer: the program there has to call rdma_get_cm_event and then "
     "rdma_accept",
     r"a connection request of \S+ port \d+ \(LID \d+\) waits: call rdma_accept or rdma_reject with event->id"),
    ("sends too early", "ibv_post_send: Invalid argument",
     "the QP is in state INIT: requests are taken from RTS on; .*with rdma_cm wait for RDMA_CM_EVENT_ESTABLISHED", NOTHING),
    ("no receive before accept", "RNR retry counter exceeded, vendor_err 0x504",
     r"the peer has no receive request posted \(asked 1 times\); post receives there before sending", NOTHING),
    ("no reads agreed", "local QP operation error, vendor_err 0x402",
     "the QP may have no RDMA read or atomic in flight .*with rdma_cm set initiator_depth in rdma_connect and responder_resources in rdma_accept",
     NOTHING),
    ("event not acknowledged", "waits for ever",
     "rdma_destroy_id waits: not all of the 1 events of this id were acknowledged; call rdma_ack_cm_event for each event", NOTHING),
    ("disconnects too early", "rdma_disconnect: Invalid argument",
     "rdma_cm: DISCONNECT: Invalid argument: the id has no connection: rdma_connect or rdma_accept come first", NOTHING),
]
TABLES = {"send_receive": SEND_RECEIVE, "remote_memory": REMOTE_MEMORY, "connect": CONNECT}
PAIRS_AT_A_TIME = 4


class Ended:
    """What a program printed, on standard output and on standard error."""

    def __init__(self, process, out, said):
        self.code, self.out, self.said = process.returncode, out, said


@unittest.skipUnless((PROGRAMS / "send_receive").exists(), "libibverbs-dev was missing when this tree was built")
class MistakesTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.environment["WEFT_DEBUG"] = "verbs,cm"
        self.up(FABRIC)

    def begin(self, program, role, *arguments, own_address=None):
        """The server of connection management is the endnode that has the address."""
        own = [f"WEFT_IP={own_address}"] if own_address else []
        return self.start("run", "--fabric", "t", "--", "env", *own, PROGRAMS / program, role, *arguments, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)

    def expect(self, who, wanted, said):
        """One line of the explanation, or none at all; None: whatever the mistake of the other side leads to."""
        # But for joining and listening, and what the launcher says.
        lines = [line for line in said.splitlines() if " info " not in line and not line.startswith("weft run: ")]
        if wanted is None:
            return
        if wanted == NOTHING:
            self.assertEqual(lines, [], f"{who} has nothing to explain")
            return
        self.assertTrue([line for line in lines if re.search(wanted, line)], f"{who}: no line has\n{wanted}\nin\n{said}")

    def run_pair(self, program, number, mistake):
        """Server and client, both ended."""
        address = f"192.0.2.{101 + number}"
        where = address if program == "connect" else self.path / f"link-{program}-{number}"
        server = self.begin(program, "server", where, mistake, own_address=address if program == "connect" else None)
        if program == "connect":
            self.assertEqual(server.stdout.readline(), "listens\n")
        client = self.begin(program, "client", where, mistake)
        said_by_client = Ended(client, *client.communicate(timeout=60))
        if program == "connect":
            try:
                return said_by_client, Ended(server, *server.communicate(timeout=0.5))
            except subprocess.TimeoutExpired:  # waits for the next client, or for this one
                server.terminate()
        return said_by_client, Ended(server, *server.communicate(timeout=60))

    def check(self, wanted, client, server):
        printed, of_client, of_server = [text.replace("ADDRESS", ADDRESS) if text else text for text in wanted]
        self.assertIn(printed, client.out + server.out, f"{client.said}\nserver: {server.said}")
        self.expect("client", of_client, client.said)
        self.expect("server", of_server, server.said)

    def check_all(self, program):
        """Some pairs at a time: those that wait for ever take seconds."""
        table = TABLES[program]
        self.assertGreater(len(table), MISTAKES_AT_LEAST)
        with concurrent.futures.ThreadPoolExecutor(PAIRS_AT_A_TIME) as pool:
            ended = list(pool.map(lambda number: self.run_pair(program, number, table[number][0]), range(len(table))))
        for (mistake, *wanted), pair in zip(table, ended):
            with self.subTest(f"{program}: {mistake}"):
                self.check(wanted, *pair)

    def test_a_program_that_sends_and_receives(self):
        self.check_all("send_receive")

    def test_a_program_that_reaches_remote_memory(self):
        self.check_all("remote_memory")

    def test_a_program_of_connection_management(self):
        self.check_all("connect")

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
        self.check(("transport retry counter exceeded, vendor_err 0x601",
                    r"the peer has never answered .*; fault s1:1 is in force for the whole switch and has struck \d+ cells", NOTHING),
                   *self.run_pair("send_receive", 0, "nothing"))
        _, said = self.begin("connect", "client", "192.0.2.7", "nothing").communicate(timeout=60)
        self.expect("client", r"ADDR_ERROR, status -110: .*; fault s1:1 is in force for the whole switch and has struck \d+ cells", said)


class ReasonsTest(unittest.TestCase):
    """The manual page of the numbers, which programs print and people look up."""

    def test_every_reason_is_documented_in_the_words_that_programs_say(self):
        documented = (SOURCE / "docs" / "verbs.md").read_text()
        rows = (SOURCE / "messages" / "failure.cc").read_text()
        codes = re.findall(r"Reason::k\w+, 0x([0-9A-F]+),", rows)
        self.assertGreater(len(codes), 60)
        for code in codes:
            self.assertIn(f"| 0x{code} | ", documented)


if __name__ == "__main__":
    unittest.main()
