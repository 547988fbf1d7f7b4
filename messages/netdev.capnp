# messages/netdev.capnp -- the nine messages of the split network driver, default encoding of channel 0.
#
# One message is one Send on channel 0 and one Cap'n Proto message of a single segment in standard framing (8
# bytes {segments - 1, words of segment 0}, then the words). Field names and widths are those of the catalogue
# (LAY-MSG); messages/netdev_model.h is the model that this encoding and the byte layout share. Rules for
# readers: the sender is not trusted; traversal limit is twice the message's words, nesting 8, a second
# segment is refused, list lengths are checked against the limits of messages/netdev.h before any entry is
# read. Field numbers are never reused.

@0xc1a6ef7d2b8e4f31;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weft::schema");

struct NetdevMessage {
  transactionContext @0 :UInt64;
  # Belongs to one transaction; a reply repeats the request's. Anything in messages that have no reply.

  protocolVersion @1 :UInt16;
  # 1. A receiver drops and counts any other.

  union {
    # Which member is set is the function name of LAY-MSG. A receiver drops a member that it does not know and
    # counts it as an unknown function; the session continues.
    bufferRecvPool @2 :List(PoolAdvert);
    # Pool owner to initiator: memory you may write to. 1 to 64 pools.

    bufferRecvPoolGet @3 :PoolGet;
    # Initiator to pool owner: more memory, please. No reply; a bufferRecvPool may follow.

    bufferRecvPoolUpdate @4 :List(PoolRun);
    # Pool owner to initiator: these elements are free again. 1 to 64 runs.

    bufferPoolFlushRequest @5 :List(UInt32);
    # Either side: these pools, by reference, are about to go. 1 to 64.

    bufferPoolFlushReply @6 :Void;
    # The other side: nothing more will be written to them.

    sendData @7 :Data;
    # A LAN packet inside the message, in sessions without data channel. No reply.

    bufferRdmaIndicate @8 :List(Indication);
    # Initiator to pool owner: I wrote these elements. 1 to 64, in the order of writing. Sent after the writes
    # have completed, where immediate data cannot name the element.

    cfgUtilRequest @9 :CfgRequest;
    # Configuration of the NIC or a utility request; answered by exactly one cfgUtilReply with the same
    # context.

    cfgUtilReply @10 :CfgReply;
  }
}

struct PoolAdvert {
  poolReference @0 :UInt32;
  # The owner's number of the pool: even for hosts, odd for units. 0xffffffff: the sender's receive WQEs, in
  # sessions without RDMA; handle and address are 0 then.

  elements @1 :UInt32;
  # 1 to 65536.

  elementSize @2 :UInt32;
  # Bytes, 1 to 2^24.

  memoryHandle @3 :UInt32;
  # RKey of the whole array.

  memoryAddress @4 :UInt64;
  # Of element 0; element i lies at memoryAddress + i * elementSize.

  poolContext @5 :UInt64;
  # Free for the owner; the initiator ignores it.
}

struct PoolGet {
  packetSize @0 :UInt32;
  # Wanted element size in bytes.

  packets @1 :UInt32;
  # Wanted number of elements.
}

struct PoolRun {
  poolReference @0 :UInt32;
  firstElement @1 :UInt32;
  elements @2 :UInt32;
  # 0: the whole pool, firstElement is 0 then.
}

struct Indication {
  poolReference @0 :UInt32;
  elementIndex @1 :UInt32;
  elementSize @2 :UInt32;
  # As advertised.

  dataLength @3 :UInt32;
  # Bytes written from the element's start.
}

struct CfgRequest {
  requestClass @0 :UInt16;
  # 1 MAC configuration, 2 utility.

  requestCode @1 :UInt16;
  # messages/netdev.h has the codes.

  data @2 :Data;
  # Everything the request needs; at most 1024 bytes; absent: none.
}

struct CfgReply {
  requestClass @0 :UInt16;
  requestCode @1 :UInt16;
  # As in the request.

  status @2 :UInt16;
  # 0 good; messages/netdev.h has the others.

  data @3 :Data;
  # At most 1024 bytes; absent: none.
}
