#include "host_driver/os_port.h"

#include "base/check.h"
#include "base/net/tap_port.h"
#include "host_driver/unix_port.h"

namespace weft::host {
namespace {

template <class Port>
Result<OsPort> made(Result<std::unique_ptr<Port>> port) {
  if (!port) return port.error();
  OsPort out;
  out.port = std::move(*port);
  return out;
}

OsPort made_gen(const MacAddress& mac, const Clock& clock) {
  auto station = std::make_unique<GenPort>(mac, clock);
  OsPort out;
  out.gen = station.get();
  out.port = std::move(station);
  return out;
}

}  // namespace

Result<OsPort> open_os(const node::OsName& os, int fd, const MacAddress& mac, const Clock& clock) {
  switch (os.kind) {
    case node::OsKind::kTap:
      return made(fd >= 0 ? TapPort::adopt(UniqueFd(fd), os.argument) : TapPort::open(os.argument));
    case node::OsKind::kGen:
      return made_gen(mac, clock);
    case node::OsKind::kUnix:
      return made(fd >= 0 ? UnixPort::adopt(UniqueFd(fd), mac) : UnixPort::listen(os.argument, mac));
  }
  WEFT_CHECK(false, "a kind of OS interface that is none");
  return Error{};
}

}  // namespace weft::host
