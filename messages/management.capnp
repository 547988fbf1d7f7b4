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
    trafficStart @2 :TrafficSpec;      # gen: port only; refused while a run is on
    trafficStop @3 :Void;              # ends the run early; answers with the report
    trafficReport @4 :Void;            # how far is it
    captureStart @5 :CaptureSpec;      # driver halves only
    captureStop @6 :Void;
  }
}

struct Reply {
  id @0 :UInt64;                       # of the request
  union {
    error @1 :Text;                    # one line: what is wrong and how to mend it
    done @2 :Void;
    info @3 :NodeInfo;
    traffic @4 :TrafficReport;
  }
}

struct NodeInfo {
  program @0 :Text;                    # "weft-host"
  name @1 :Text;                       # of the node
  version @2 :Text;                    # of the program
  pid @3 :UInt32;
  lid @4 :UInt16;                      # 0: none yet, or a switch
  guid @5 :UInt64;
  ready @6 :Bool;                      # endnode: every session it was told to open is open; switch: listens
  state @7 :Text;                      # one word for people: "open", "connecting", "listening"
  sessions @8 :List(Session);          # at most 64
  wireVersion @9 :UInt16;              # highest link version it speaks
  ports @10 :List(Port);               # switch only; at most 64
  fault @11 :Text;                     # why it is not ready, when it knows: "switch refused: version"

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

struct TrafficSpec {
  kind @0 :Kind;
  frames @1 :UInt64;                   # to send; 0: until `durationMs`
  durationMs @2 :UInt64;               # 0: until `frames`; both 0 is refused
  rate @3 :UInt64;                     # frames per second, 0: as fast as the fabric takes them
  frameBytesMin @4 :UInt32;            # Ethernet frame without checksum, header included: 60..65535
  frameBytesMax @5 :UInt32;            # sizes go round from min to max
  window @6 :UInt32;                   # answers outstanding at most; 0: nobody answers, frames are only sent
  verify @7 :Bool;                     # compare every byte of every answer
  port @8 :UInt16;                     # gen: port of the process, in the order of --unit, from 0
  timeoutMs @9 :UInt32;                # an answer later than this is lost; 0: 1000
  peerMac @10 :UInt64;                 # low 48 bits; 0: ask by ARP or neighbour discovery
  peerIpv4 @11 :UInt32;                # 0: the echo object's own
  ownIpv4 @12 :UInt32;                 # 0: one on the echo object's network

  enum Kind {
    udp @0;
    icmp @1;
    icmp6 @2;
    arp @3;
  }
}

struct TrafficReport {
  running @0 :Bool;
  framesSent @1 :UInt64;
  framesReceived @2 :UInt64;           # answers that came back right
  bytesSent @3 :UInt64;
  bytesReceived @4 :UInt64;
  lost @5 :UInt64;
  corrupted @6 :UInt64;
  duplicated @7 :UInt64;
  reordered @8 :UInt64;
  elapsedNs @9 :UInt64;                # from the first frame to the last answer
  rttMinNs @10 :UInt64;                # 0 when nothing was measured
  rttP50Ns @11 :UInt64;
  rttP90Ns @12 :UInt64;
  rttP99Ns @13 :UInt64;
  rttP999Ns @14 :UInt64;
  rttMaxNs @15 :UInt64;
  blocked @16 :UInt64;                 # times a frame was due and the driver did not take it
}

struct CaptureSpec {
  path @0 :Text;                       # of the capture ring to create, inside the state directory
  frameBytesMax @1 :UInt32;            # bytes kept of each frame; 0: all
  ringBytes @2 :UInt32;                # 0: 8 MiB
}
