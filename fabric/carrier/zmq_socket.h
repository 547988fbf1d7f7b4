// fabric/carrier/zmq_socket.h -- RAII wrappers of ZeroMQ contexts, sockets and messages, with the options
// that links use.
#pragma once

#include <zmq.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace weft::fabric {

/// Send buffer of an ipc connection in bytes. The system's default of 208 KiB is less than one burst: writer
/// and reader would wake each other several times per burst.
inline constexpr int kIpcSendBytes = 1 << 20;

/// A received or to-be-sent message. Move-only.
class ZmqMessage {
 public:
  ZmqMessage() noexcept { zmq_msg_init(&raw_); }
  ZmqMessage(ZmqMessage&& other) noexcept : ZmqMessage() { zmq_msg_move(&raw_, &other.raw_); }
  ZmqMessage& operator=(ZmqMessage&& other) noexcept {
    if (this != &other) zmq_msg_move(&raw_, &other.raw_);
    return *this;
  }
  ~ZmqMessage() { zmq_msg_close(&raw_); }

  /// A copy of `data`; false without memory.
  [[nodiscard]] bool assign(std::span<const std::byte> data) noexcept;
  /// Makes a message of `data` without a copy. When the last reference is dropped, the thread that drops it
  /// calls `release(data, hint)`. False without memory; `release` is then not called.
  [[nodiscard]] bool lend(std::span<std::byte> data, zmq_free_fn* release, void* hint) noexcept;
  /// Another reference to the same bytes.
  [[nodiscard]] ZmqMessage share() noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(zmq_msg_data(const_cast<zmq_msg_t*>(&raw_))), zmq_msg_size(&raw_)};
  }
  [[nodiscard]] bool more() const noexcept { return zmq_msg_more(&raw_) != 0; }
  /// A property of the connection the message came by ("User-Id", "Peer-Address"); empty when unknown.
  [[nodiscard]] std::string_view property(const char* name) const noexcept;
  void clear() noexcept;
  /// Raises the send buffer of the ipc connection by which this message came to kIpcSendBytes. No effect on
  /// other transports; a smaller buffer where the system allows less.
  void widen_connection() const noexcept;
  [[nodiscard]] zmq_msg_t* raw() noexcept { return &raw_; }

 private:
  zmq_msg_t raw_;
};

/// The context's I/O threads run under SCHED_BATCH. The kernel wakes a reader for the first 32 KiB of a
/// burst. Under SCHED_BATCH this thread does not take the core from the thread that still writes, and finds
/// the whole burst at its turn (docs/performance.md). Owner: one thread.
class ZmqContext {
 public:
  static Result<std::shared_ptr<ZmqContext>> create();
  explicit ZmqContext(void* raw) noexcept : raw_(raw) {}
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  ~ZmqContext() { zmq_ctx_term(raw_); }
  [[nodiscard]] void* raw() const noexcept { return raw_; }

 private:
  void* raw_;
};

/// Owner: one thread. Sends and receives never wait.
class ZmqSocket {
 public:
  static Result<std::unique_ptr<ZmqSocket>> create(std::shared_ptr<ZmqContext> context, int type);
  ZmqSocket(std::shared_ptr<ZmqContext> context, void* raw) noexcept
      : context_(std::move(context)), raw_(raw) {}
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;
  ~ZmqSocket() { zmq_close(raw_); }

  Status set(int option, int value);
  Status set(int option, const std::string& value);
  /// Options of all link sockets: no lingering, bounded queues, dead connections noticed within `silence`.
  Status set_link_options(Duration silence);
  /// On an ipc endpoint, before bind(): connections of other users are closed at once (SO_PEERCRED).
  Status accept_own_user_only();
  Status bind(const std::string& endpoint);
  Status connect(const std::string& endpoint);

  /// False when the message could not be sent; it then still belongs to the caller.
  [[nodiscard]] bool send(ZmqMessage& message, bool more = false) noexcept;
  [[nodiscard]] bool receive(ZmqMessage& message) noexcept;
  /// True when something can be received. Asks the library, because the descriptor is edge-triggered.
  [[nodiscard]] bool readable() const noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] void* raw() const noexcept { return raw_; }

 private:
  std::shared_ptr<ZmqContext> context_;
  void* raw_;
  int fd_ = -1;
};

}  // namespace weft::fabric
