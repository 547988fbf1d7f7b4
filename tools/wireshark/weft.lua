-- Dissectors for Wireshark and tshark: cells as written by `weft capture --cells` (link type USER0, 147), and flits (USER1,
-- 148), which no tool of Weft writes. docs/wire_format.md has the layouts. To use it, copy the file to Wireshark's folder of
-- personal Lua plugins, or:
--
--   tshark -X lua_script:weft.lua -r cells.pcapng
-- Wireshark's bit library, because Lua 5.2 lacks the bit operators of Lua 5.3.
local band, rshift = bit.band, bit.rshift

local cell = Proto("weft", "Weft cell")
local flit = Proto("weft_flit", "Weft flit")

local OPCODES = {
  [0x01] = "Send", [0x02] = "RDMA write", [0x03] = "RDMA read request", [0x04] = "RDMA read response",
  [0x05] = "FetchOp request", [0x06] = "FetchOp response", [0x07] = "Terminate", [0x08] = "Stream segment",
  [0x10] = "ACK", [0x11] = "NAK", [0x12] = "Ways", [0x20] = "Raw", [0x21] = "UD Send", [0x22] = "RD Send", [0x23] = "RD write",
  [0xA1] = "XRC Send", [0xA2] = "XRC write", [0xA3] = "XRC read request", [0xA5] = "XRC FetchOp request",
}
local ACK_CODES = {
  [0] = "ACK", [1] = "sequence error", [2] = "receiver not ready", [3] = "remote access refused", [4] = "not supported",
  [5] = "remote operation error", [6] = "packet CRC wrong",
}
local FETCH_OPS = { [1] = "compare and swap", [2] = "add" }
local FLIT_KINDS = { [0] = "data", [1] = "ack", [2] = "repeat request", [3] = "credit" }
local SESSION_KINDS = { [0x10] = "REQ", [0x12] = "REJ", [0x13] = "REP", [0x14] = "RTU", [0x15] = "DREQ", [0x16] = "DREP" }
local REJECTIONS = {
  [1] = "version", [2] = "encoding", [3] = "mode", [4] = "idata format", [5] = "frame size", [6] = "MAC address taken",
  [7] = "sessions full", [8] = "no memory", [9] = "malformed", [10] = "policy", [11] = "no such session", [12] = "too many sessions of the LID",
}
local ENCODINGS = { [1] = "Cap'n Proto", [2] = "bytes" }
local MODES = { [1] = "RDMA", [2] = "send/receive", [3] = "SendData only" }
local FUNCTIONS = {
  [1] = "BufferRecvPool", [2] = "BufferRecvPoolGet", [3] = "BufferRecvPoolUpdate", [4] = "BufferPoolFlushRequest",
  [5] = "BufferPoolFlushReply", [6] = "SendData", [7] = "BufferRDMAIndicate", [8] = "CfgUtilRequest", [9] = "CfgUtilReply",
}
local FLAGS = {
  { 0x80, "FIRST" }, { 0x40, "LAST" }, { 0x20, "GLOBAL" }, { 0x10, "VA" }, { 0x08, "IDATA" }, { 0x04, "PACKET CRC" },
  { 0x02, "ACK" }, { 0x01, "INVALIDATE" },
}
local FLAGS2 = { { 0x80, "MORE" }, { 0x40, "SOLICITED" }, { 0x20, "CONTINUES" }, { 0x10, "MAY MIGRATE" } }

local f = {
  dsubnet = ProtoField.uint16("weft.dst_subnet", "Destination subnet"),
  dlid = ProtoField.uint16("weft.dst_lid", "Destination LID"),
  ssubnet = ProtoField.uint16("weft.src_subnet", "Source subnet"),
  slid = ProtoField.uint16("weft.src_lid", "Source LID"),
  version = ProtoField.uint8("weft.version", "Version"),
  opcode = ProtoField.uint8("weft.opcode", "Operation", base.HEX, OPCODES),
  flags = ProtoField.uint8("weft.flags", "Flags", base.HEX),
  sl = ProtoField.uint8("weft.sl", "Service level", base.DEC, nil, 0xF0),
  vl = ProtoField.uint8("weft.vl", "Virtual lane", base.DEC, nil, 0x0F),
  pkey = ProtoField.uint16("weft.pkey", "P_Key", base.HEX),
  dqpn = ProtoField.uint24("weft.dst_qpn", "Destination QPN", base.HEX),
  sqpn = ProtoField.uint24("weft.src_qpn", "Source QPN", base.HEX),
  flags2 = ProtoField.uint8("weft.flags2", "Further flags", base.HEX),
  psn = ProtoField.uint24("weft.psn", "PSN", base.HEX),
  number = ProtoField.uint16("weft.cell_number", "Cell number"),
  bytes = ProtoField.uint16("weft.payload_bytes", "Payload bytes"),
  gsource = ProtoField.ipv6("weft.global.src", "Source GID"),
  gdestination = ProtoField.ipv6("weft.global.dst", "Destination GID"),
  va = ProtoField.uint64("weft.va", "Virtual address", base.HEX),
  mh = ProtoField.uint32("weft.rkey", "Memory handle (RKey)", base.HEX),
  qkey = ProtoField.uint32("weft.qkey", "Q_Key", base.HEX),
  srq = ProtoField.uint24("weft.srq", "SRQ number", base.HEX),
  idata = ProtoField.uint32("weft.idata", "Immediate data", base.HEX),
  ackpsn = ProtoField.uint32("weft.ack.psn", "Acknowledged PSN", base.HEX),
  ackcell = ProtoField.uint16("weft.ack.cell", "Acknowledged cell (receiver not ready: timer)"),
  ackcode = ProtoField.uint8("weft.ack.code", "Code", base.DEC, ACK_CODES),
  messages = ProtoField.uint32("weft.ack.messages", "Messages completed"),
  blockpsn = ProtoField.uint32("weft.ack.block.psn", "Has cells of PSN", base.HEX),
  blockcell = ProtoField.uint16("weft.ack.block.cell", "from cell"),
  bitmap = ProtoField.uint64("weft.ack.block.bitmap", "as bits", base.HEX),
  sinkkey = ProtoField.uint32("weft.read.sink_key", "Sink key", base.HEX),
  sink = ProtoField.uint64("weft.read.sink", "Sink address", base.HEX),
  length = ProtoField.uint32("weft.read.length", "Length"),
  sourcekey = ProtoField.uint32("weft.read.source_key", "Source key", base.HEX),
  source = ProtoField.uint64("weft.read.source", "Source address", base.HEX),
  sequence = ProtoField.uint32("weft.read.sequence", "Message sequence"),
  address = ProtoField.uint64("weft.fetch.address", "Address", base.HEX),
  key = ProtoField.uint32("weft.fetch.key", "Key", base.HEX),
  fetchop = ProtoField.uint8("weft.fetch.operation", "Operation", base.DEC, FETCH_OPS),
  compare = ProtoField.uint64("weft.fetch.compare", "Compare", base.HEX),
  operand = ProtoField.uint64("weft.fetch.operand", "Operand", base.HEX),
  before = ProtoField.uint64("weft.fetch.before", "Value before", base.HEX),
  packetcrc = ProtoField.uint32("weft.packet_crc", "Packet CRC", base.HEX),
  crc = ProtoField.uint32("weft.crc", "Cell CRC", base.HEX),
  kind = ProtoField.uint16("weft.session.kind", "Session message", base.HEX, SESSION_KINDS),
  nonce = ProtoField.uint64("weft.session.nonce", "Session nonce", base.HEX),
  reason = ProtoField.uint16("weft.session.reason", "Reason", base.DEC, REJECTIONS),
  lowest = ProtoField.uint16("weft.session.lowest", "Lowest driver protocol"),
  highest = ProtoField.uint16("weft.session.highest", "Highest driver protocol"),
  encoding = ProtoField.uint8("weft.session.encoding", "Encoding", base.DEC, ENCODINGS),
  mode = ProtoField.uint8("weft.session.mode", "Mode", base.DEC, MODES),
  idataformat = ProtoField.uint8("weft.session.idata_format", "Idata format"),
  channels = ProtoField.uint8("weft.session.channels", "Channels"),
  qpn0 = ProtoField.uint24("weft.session.qpn0", "QPN of channel 0", base.HEX),
  psn0 = ProtoField.uint24("weft.session.psn0", "First PSN of channel 0", base.HEX),
  qpn1 = ProtoField.uint32("weft.session.qpn1", "QPN of channel 1", base.HEX),
  psn1 = ProtoField.uint32("weft.session.psn1", "First PSN of channel 1", base.HEX),
  frame = ProtoField.uint32("weft.session.frame_bytes", "Largest Ethernet frame"),
  features = ProtoField.uint32("weft.session.features", "Offload features", base.HEX),
  mac = ProtoField.ether("weft.session.mac", "MAC address"),
  func = ProtoField.uint16("weft.driver.function", "Driver message", base.DEC, FUNCTIONS),
  context = ProtoField.uint64("weft.driver.context", "Transaction context", base.HEX),
}
cell.fields = f
local e_short = ProtoExpert.new("weft.short", "The bytes end before the fields do", expert.group.MALFORMED, expert.severity.ERROR)
cell.experts = { e_short }

local g = {
  kind = ProtoField.uint8("weft_flit.kind", "Kind", base.DEC, FLIT_KINDS, 0xF0),
  vl = ProtoField.uint8("weft_flit.vl", "Virtual lane", base.DEC, nil, 0x0F),
  head = ProtoField.bool("weft_flit.head", "HEAD", 8, nil, 0x80),
  tail = ProtoField.bool("weft_flit.tail", "TAIL", 8, nil, 0x40),
  poison = ProtoField.bool("weft_flit.poison", "POISON", 8, nil, 0x20),
  answer = ProtoField.bool("weft_flit.answer", "ANSWER", 8, nil, 0x10),
  bytes = ProtoField.uint16("weft_flit.payload_bytes", "Payload bytes"),
  sequence = ProtoField.uint16("weft_flit.sequence", "Sequence"),
  acknowledged = ProtoField.uint16("weft_flit.acknowledged", "Acknowledged"),
  creditvl = ProtoField.uint8("weft_flit.credit_vl", "Credit lane"),
  credit = ProtoField.uint16("weft_flit.credit", "Credit total"),
  crc = ProtoField.uint32("weft_flit.crc", "CRC", base.HEX),
}
flit.fields = g
local e_flit_short = ProtoExpert.new("weft_flit.short", "The bytes end before the fields do", expert.group.MALFORMED,
  expert.severity.ERROR)
flit.experts = { e_flit_short }

-- Names of the set bits.
local function words(bits, names)
  local out = {}
  for _, name in ipairs(names) do
    if band(bits, name[1]) ~= 0 then out[#out + 1] = name[2] end
  end
  return table.concat(out, " ")
end

-- Adds consecutive fields { field, bytes }, ...; returns the offset after them. A nil field is skipped.
local function add_all(tree, tvb, at, list)
  for _, item in ipairs(list) do
    if item[1] then tree:add(item[1], tvb(at, item[2])) end
    at = at + item[2]
  end
  return at
end

local function add_blocks(tree, tvb, at, bytes)
  for block = at, at + bytes - 16, 16 do
    add_all(tree, tvb, block, { { f.blockpsn, 4 }, { f.blockcell, 2 }, { nil, 2 }, { f.bitmap, 8 } })
  end
end

-- Adds a connection management message of a session. A REQ names the service of sessions, a REP repeats its version.
local function add_session(tree, tvb, at, info)
  local kind = tvb(at + 16, 2):uint()
  if tvb(at + 1, 1):uint() ~= 7 or not SESSION_KINDS[kind] then return end
  local offer
  if kind == 0x10 and tvb(at + 32, 4):uint() == 0x02000000 and tvb(at + 36, 4):uint() == 0x57454654 then offer = at + 164 end
  if kind == 0x13 and tvb(at + 60, 4):uint() == 0x00010001 then offer = at + 60 end
  info[#info + 1] = "session " .. SESSION_KINDS[kind]
  local sub = tree:add(cell, tvb(at, 256), "Session " .. SESSION_KINDS[kind])
  sub:add(f.kind, tvb(at + 16, 2))
  sub:add(f.nonce, tvb(at + 8, 8))
  if kind == 0x12 then
    add_all(sub, tvb, at + 108, { { f.reason, 2 }, { f.lowest, 2 }, { f.highest, 2 } })
  elseif offer then
    sub:add(f.qpn0, tvb(kind == 0x10 and at + 56 or at + 36, 3))
    sub:add(f.psn0, tvb(kind == 0x10 and at + 68 or at + 44, 3))
    add_all(sub, tvb, offer, { { f.lowest, 2 }, { f.highest, 2 }, { f.encoding, 1 }, { f.mode, 1 }, { f.idataformat, 1 },
      { f.channels, 1 }, { f.qpn1, 4 }, { f.psn1, 4 }, { f.frame, 4 }, { f.features, 4 }, { f.mac, 6 } })
  end
end

-- Adds a driver message in the encoding "bytes", if the Send of one cell looks like one.
local function add_driver(tree, tvb, at, bytes, info)
  local func = bytes >= 12 and tvb(at, 2):uint() or 0
  if not FUNCTIONS[func] or tvb(at + 2, 2):uint() ~= 1 then return end
  info[#info + 1] = FUNCTIONS[func]
  local sub = tree:add(cell, tvb(at, bytes), "Driver message " .. FUNCTIONS[func])
  add_all(sub, tvb, at, { { f.func, 2 }, { nil, 2 }, { f.context, 8 } })
end

local function add_payload(tree, tvb, at, bytes, head, info)
  if bytes == 0 or head.ack then return end
  local whole = band(head.flags, 0xC0) == 0xC0
  if head.read and bytes >= 32 then
    add_all(tree, tvb, at, { { f.sinkkey, 4 }, { f.sink, 8 }, { f.length, 4 }, { f.sourcekey, 4 }, { f.source, 8 }, { f.sequence, 4 } })
  elseif head.fetch and bytes >= 32 then
    add_all(tree, tvb, at, { { f.address, 8 }, { f.key, 4 }, { f.fetchop, 1 }, { nil, 3 }, { f.compare, 8 }, { f.operand, 8 } })
  elseif head.opcode == 0x06 and bytes >= 8 then
    tree:add(f.before, tvb(at, 8))
  elseif head.opcode == 0x21 and head.dqpn == 1 and bytes == 256 then
    add_session(tree, tvb, at, info)
  elseif head.opcode == 0x01 and whole then
    add_driver(tree, tvb, at, bytes, info)
  end
  local rest = tree:add(tvb(at, bytes), "Data (" .. bytes .. " bytes)")
  if head.opcode == 0x21 and head.dqpn <= 1 and bytes == 256 then rest:append_text(": management datagram") end
end

-- Adds the parts between header and data, which depend on flags and operation.
local function add_parts(tree, tvb, at, head)
  if band(head.flags, 0x20) ~= 0 then
    at = add_all(tree, tvb, at, { { nil, 8 }, { f.gsource, 16 }, { f.gdestination, 16 } })
  end
  if band(head.flags, 0x10) ~= 0 then at = add_all(tree, tvb, at, { { f.va, 8 }, { f.mh, 4 } }) end
  if head.opcode >= 0x21 and head.opcode <= 0x23 then
    at = add_all(tree, tvb, at, { { f.qkey, 4 }, { f.pkey, 2 }, { nil, 2 } })
  elseif head.opcode >= 0xA0 then
    at = add_all(tree, tvb, at, { { nil, 1 }, { f.srq, 3 } })
  end
  if band(head.flags, 0x08) ~= 0 then at = add_all(tree, tvb, at, { { f.idata, 4 } }) end
  if head.ack then
    at = add_all(tree, tvb, at, { { f.ackpsn, 4 }, { f.ackcell, 2 }, { f.ackcode, 1 }, { nil, 1 }, { f.messages, 4 } })
    if head.opcode ~= 0x12 then add_blocks(tree, tvb, at, head.bytes) end
  end
  return at
end

local function add_header(tree, tvb)
  add_all(tree, tvb, 2, { { f.dsubnet, 2 }, { f.dlid, 2 }, { nil, 2 }, { f.ssubnet, 2 }, { f.slid, 2 }, { f.version, 1 }, { f.opcode, 1 } })
  tree:add(f.flags, tvb(14, 1)):append_text(" " .. words(tvb(14, 1):uint(), FLAGS))
  tree:add(f.sl, tvb(15, 1))
  tree:add(f.vl, tvb(15, 1))
  local opcode = tvb(13, 1):uint()
  if opcode < 0x20 or opcode > 0x23 then
    local pkey = tvb(16, 1):uint() * 256 + tvb(20, 1):uint()
    tree:add(f.pkey, tvb(16, 5), pkey == 0 and 0xFFFF or pkey)
  end
  tree:add(f.dqpn, tvb(17, 3))
  tree:add(f.sqpn, tvb(21, 3))
  tree:add(f.flags2, tvb(24, 1)):append_text(" " .. words(tvb(24, 1):uint(), FLAGS2))
  add_all(tree, tvb, 25, { { f.psn, 3 }, { f.number, 2 }, { f.bytes, 2 } })
end

function cell.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "Weft"
  local tree = root:add(cell, tvb())
  if tvb:len() < 36 then
    tree:add_proto_expert_info(e_short)
    return
  end
  add_header(tree, tvb)
  local head = { opcode = tvb(13, 1):uint(), flags = tvb(14, 1):uint(), dqpn = tvb(17, 3):uint(), sqpn = tvb(21, 3):uint(), bytes = tvb(30, 2):uint() }
  head.ack = head.opcode == 0x10 or head.opcode == 0x11 or head.opcode == 0x12
  head.read = head.opcode == 0x03 or head.opcode == 0xA3
  head.fetch = head.opcode == 0x05 or head.opcode == 0xA5
  pinfo.cols.src = "LID " .. tvb(10, 2):uint()
  pinfo.cols.dst = "LID " .. tvb(4, 2):uint()
  local info = { OPCODES[head.opcode] or string.format("operation %#x", head.opcode),
    string.format("QP=%#x PSN=%#x cell %d, %d bytes", head.dqpn, tvb(25, 3):uint(), tvb(28, 2):uint(), head.bytes),
    words(band(head.flags, 0xC3), FLAGS) }
  local parts = (band(head.flags, 0x20) ~= 0 and 40 or 0) + (band(head.flags, 0x10) ~= 0 and 12 or 0) +
    (head.opcode >= 0x21 and head.opcode <= 0x23 and 8 or 0) + (head.opcode >= 0xA0 and 4 or 0) +
    (band(head.flags, 0x08) ~= 0 and 4 or 0) + (head.ack and 12 or 0)
  local packet_crc = band(head.flags, 0x04) ~= 0 and 4 or 0
  if tvb:len() < 32 + parts + head.bytes + packet_crc + 4 then
    tree:add_proto_expert_info(e_short)
  else
    local at = add_parts(tree, tvb, 32, head)
    if head.ack then
      local code = tvb(at - 6, 1):uint()
      info[#info + 1] = string.format("%s up to PSN=%#x cell %d", ACK_CODES[code] or "?", tvb(at - 12, 4):uint(), tvb(at - 8, 2):uint())
    end
    add_payload(tree, tvb, at, head.bytes, head, info)
    at = at + head.bytes
    if packet_crc ~= 0 then at = add_all(tree, tvb, at, { { f.packetcrc, 4 } }) end
    tree:add(f.crc, tvb(at, 4))
  end
  pinfo.cols.info = table.concat(info, ", ")
end

function flit.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "Weft flit"
  local tree = root:add(flit, tvb(0, math.min(16, tvb:len())))
  if tvb:len() < 16 then
    tree:add_proto_expert_info(e_flit_short)
    return
  end
  for _, field in ipairs({ g.kind, g.vl }) do tree:add(field, tvb(0, 1)) end
  for _, field in ipairs({ g.head, g.tail, g.poison, g.answer }) do tree:add(field, tvb(1, 1)) end
  add_all(tree, tvb, 2, { { g.bytes, 2 }, { g.sequence, 2 }, { g.acknowledged, 2 }, { g.creditvl, 1 }, { nil, 1 }, { g.credit, 2 }, { g.crc, 4 } })
  local kind, bytes = rshift(tvb(0, 1):uint(), 4), tvb(2, 2):uint()
  pinfo.cols.info = string.format("%s, sequence %d, acknowledged %d, %d bytes", FLIT_KINDS[kind] or "?", tvb(4, 2):uint(),
    tvb(6, 2):uint(), bytes)
  if bytes > tvb:len() - 16 then
    tree:add_proto_expert_info(e_flit_short)
  elseif kind == 0 and band(tvb(1, 1):uint(), 0xE0) == 0xC0 then
    cell.dissector(tvb(16, bytes):tvb(), pinfo, root)  -- a whole cell
  elseif bytes > 0 then
    root:add(tvb(16, bytes), "Part of a cell (" .. bytes .. " bytes)")
  end
end

local link_types = DissectorTable.get("wtap_encap")
link_types:add(wtap.USER0, cell)
link_types:add(wtap.USER1, flit)
