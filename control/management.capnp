# What `weft` and the processes of a fabric say to each other on the control endpoint DIR/NAME.ctl: one Request, one
# Reply, each one Cap'n Proto message of a single segment. Field numbers are never reused. A process answers a request
# it does not know with `error`, so an older process and a newer `weft` still understand each other.
@0x9cffbc13aea2f749;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weft::schema");

struct Request {
  id @0 :UInt64;                       # chosen by the asker, comes back in the reply
  union {
    info @1 :Void;                     # who are you and are you ready
    trafficStart @2 :TrafficRun;       # gen: port only; refused while a run is on. It ends 5 s after the last report
    trafficStop @3 :Void;              # ends the run early; answers with the report
    trafficReport @4 :Void;            # how far is it
    captureStart @5 :CaptureSpec;      # driver halves only
    captureStop @6 :Text;              # path of the ring whose capture is to end
    nicAsk @7 :NicWish;                # host only: passes the wish on, asks the unit for the rest; answered at once,
                                       # the unit's answers come later: nicReport until it is not pending
    nicReport @8 :Text;                # one of NodeInfo.interfaces
    faultAdd @9 :FaultRule;            # switch only: answers with `faults`, the new one last
    faultClear @10 :UInt32;            # its id; 0: all; answers with those that are left
    faultList @11 :Void;
  }
}

struct Reply {
  id @0 :UInt64;                       # of the request
  union {
    error @1 :Text;                    # one line: what is wrong and how to mend it
    done @2 :Void;
    info @3 :NodeInfo;
    traffic @4 :TrafficFigures;
    nic @5 :NicReport;
    faults @6 :List(Fault);            # in force, at most 64
  }
}

# One rule of a switch: docs/faults.md. Times in nanoseconds.
struct FaultRule {
  port @0 :UInt16;                     # 0: every port of the switch
  kind @1 :Text;                       # "drop", "corrupt", "duplicate", "reorder", "delay", "rate", "cut", "flap"
  direction @2 :Text;                  # "both", "from", "to"
  lanes @3 :UInt32;                    # as bits
  opcode @4 :UInt8;                    # 0: any
  chancePpm @5 :UInt32;
  every @6 :UInt32;
  limit @7 :UInt64;                    # 0: none
  lastsNs @8 :UInt64;                  # 0: until it is cleared
  delayMinNs @9 :UInt64;
  delayMaxNs @10 :UInt64;
  cellsPerSecond @11 :UInt32;
  upNs @12 :UInt64;
  downNs @13 :UInt64;
  seed @14 :UInt64;
  bitsPerSecond @15 :UInt64;           # of a rate, instead of cellsPerSecond
  guid @16 :UInt64;                    # not 0: of the endnode it is for, on whatever port, and with which it ends;
                                       # `port` is then where it is, 65535 while it has not joined
}

struct Fault {
  id @0 :UInt32;
  rule @1 :FaultRule;
  matched @2 :UInt64;
  struck @3 :UInt64;
  leftNs @4 :UInt64;                   # of a rule that lasts; 0: it is over, or lasts until it is cleared
}

struct NodeInfo {
  program @0 :Text;                    # "weft-host"
  name @1 :Text;                       # of the node
  version @2 :Text;                    # of the program
  pid @3 :UInt32;
  lid @4 :UInt16;                      # 0: none yet, or a switch
  guid @5 :UInt64;
  ready @6 :Bool;                      # endnode: link and sessions are up; switch: links to neighbours
  state @7 :Text;                      # one word for people: "open", "connecting", "listening"
  sessions @8 :List(Session);          # at most 64
  wireVersion @9 :UInt16;              # highest link version it speaks
  ports @10 :List(Port);               # switch only; at most 254
  fault @11 :Text;                     # why it is not ready, when it knows: "no link to the switch: version"
  interfaces @12 :List(Text);          # host and unit only, at most 64: "eth0", "gen0"; a capture counts them from 0

  struct Session {
    peerLid @0 :UInt16;
    state @1 :Text;                    # as NetdevSession prints it
    mode @2 :Text;                     # "rdma", "sendrecv", "senddata"
    encoding @3 :Text;                 # "capnp", "bytes"
    mac @4 :Text;                      # of the port behind the host half
  }
  struct Port {
    number @0 :UInt16;
    state @1 :Text;                    # "up", "down", "faulty"
    lid @2 :UInt16;
    peer @3 :Text;                     # node name, empty when nobody has joined
    carrier @4 :Text;                  # "shm", "zmq"
  }
}

struct TrafficRun {
  port @0 :UInt16;                     # gen: port of the process, in the order of --unit, from 0
  roundTrips @1 :UInt32;               # of each kind below, one outstanding; 0: none
  arp @2 :Bool;
  icmp @3 :Bool;
  icmpv6 @4 :Bool;
  udp @5 :Bool;
  roundTripBytes @6 :UInt32;           # Ethernet frame without checksum, header included
  bulk @7 :Bool;                       # then a bulk run over UDP echo, every byte of every answer compared
  bulkFrames @8 :UInt64;               # 0: as many as bulkDurationMs allows
  bulkDurationMs @9 :UInt64;           # 0: until bulkFrames are sent; both 0 is refused when `bulk`
  sizes @10 :List(UInt32);             # frame lengths of the bulk run, in turn; 1..8 of them
  rate @11 :UInt64;                    # bulk frames per second; 0: as fast as the window lets
  window @12 :UInt32;                  # bulk frames without answer
  timeoutMs @13 :UInt32;               # an answer later than this is lost; 0: the generator's own
  seed @14 :UInt64;                    # of the pattern
  targetIpv4 @15 :UInt32;              # 0: the echo object's own
  targetIpv6High @16 :UInt64;          # both halves 0: the echo object's own
  targetIpv6Low @17 :UInt64;
}

struct TrafficFigures {
  running @0 :Bool;
  phase @1 :Text;                      # "idle", "resolving", "round-trips", "bulk", "draining", "finished", "failed",
                                       # "too-long", "abandoned"
  framesSent @2 :UInt64;               # bulk frames and round trips together
  framesReceived @3 :UInt64;           # answers that came back right
  lost @4 :UInt64;                     # no good answer in time
  corrupted @5 :UInt64;
  duplicated @6 :UInt64;
  reordered @7 :UInt64;                # good, but after a later one
  late @8 :UInt64;                     # came after they had been given up
  bulkFramesReceived @9 :UInt64;
  bulkBytesReceived @10 :UInt64;       # frame bytes of good bulk answers
  bulkNs @11 :UInt64;                  # first bulk frame sent to last good answer
  roundTrip @12 :RoundTrip;            # all kinds, one outstanding
  byKind @13 :List(RoundTrip);         # ARP, ICMP, ICMPv6, UDP
  bulkRoundTrip @14 :RoundTrip;        # under load

  struct RoundTrip {
    count @0 :UInt64;
    p50Ns @1 :UInt64;
    p99Ns @2 :UInt64;
    p999Ns @3 :UInt64;
    maxNs @4 :UInt64;
  }
}

struct CaptureSpec {
  path @0 :Text;                       # of the capture ring to create, inside the state directory
  frameBytesMax @1 :UInt32;            # bytes kept of each frame; 0: all
  ringBytes @2 :UInt32;                # 0: 8 MiB
  interface @3 :Text;                  # one of NodeInfo.interfaces; absent: all of them
  readerPid @4 :UInt32;                # process that reads the ring; when it is gone, so is the capture
}

# What a host is to ask of the LAN NIC at the far end of an interface's session.
struct NicWish {
  interface @0 :Text;                  # one of NodeInfo.interfaces
  clear @1 :Bool;                      # the statistics, after they have been read
  setPromiscuous @2 :Bool;             # the next field counts; so with the two that follow
  promiscuous @3 :Bool;
  setAllMulticast @4 :Bool;
  allMulticast @5 :Bool;
  setMulticast @6 :Bool;
  multicast @7 :List(Text);            # MAC addresses, at most 64; replace those before
}

struct NicReport {
  interface @0 :Text;
  unitLid @1 :UInt16;
  pending @2 :Bool;                    # answers of the unit are still to come
  reads @3 :UInt64;                    # how often the statistics came; not grown: the session ended meanwhile
  linkUp @4 :Bool;                     # of the NIC
  mac @5 :Text;                        # of the host, as the unit has it
  mtu @6 :UInt32;                      # in force
  nicMtu @7 :UInt32;                   # of the NIC
  offloads @8 :List(Text);             # in force
  nicOffloads @9 :List(Text);          # of the NIC
  promiscuous @10 :Bool;               # in force; so with the two that follow
  allMulticast @11 :Bool;
  multicast @12 :List(Text);
  statistics @13 :Statistics;
  faults @14 :List(Text);              # what is not as the host wants it, and how to mend it

  struct Statistics {                  # of this session alone; in is from the LAN to the host
    framesIn @0 :UInt64;
    bytesIn @1 :UInt64;
    framesOut @2 :UInt64;
    bytesOut @3 :UInt64;
    drops @4 :UInt64;
    errors @5 :UInt64;
  }
}
