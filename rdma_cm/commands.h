// rdma_cm/commands.h -- the commands that librdmacm writes to /dev/infiniband/rdma_cm, as defined in
// rdma_user_cm.h. Answers are written directly to the addresses that the commands name in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters.h"
#include "rdma_cm/endnode.h"

namespace weft::rdma_cm {

enum class CommandCounter : uint8_t { kDone, kRefused, kEvents, kCount };
[[nodiscard]] constexpr CounterNames<CommandCounter> counter_labels(CommandCounter /*of*/) noexcept {
  return {"done", "refused", "events"};
}

/// Name of a command; "?" for an unknown number.
[[nodiscard]] const char* command_name(uint32_t number) noexcept;

/// One owner thread, or a lock around it.
class Commands {
 public:
  explicit Commands(Endnode& endnode) noexcept : node_(endnode) {}

  /// True for the command that asks for the next event. The caller first takes a unit of the file's
  /// descriptor, without the lock, and repeats execute() until its result is not EAGAIN.
  [[nodiscard]] static bool asks_for_event(std::span<const std::byte> command) noexcept;
  /// True for a BIND with an address of family AF_IB. librdmacm tries this family first. We refuse it, and
  /// librdmacm continues with IP addresses; the program has made no mistake.
  [[nodiscard]] static bool is_probe(std::span<const std::byte> command) noexcept;
  /// @param command  header and body as written. @return 0 or an errno
  [[nodiscard]] int execute(Instant now, CmFile& file, std::span<const std::byte> command) noexcept;
  /// Text for the last refusal, or a warning about the last command; empty if the errno says enough.
  [[nodiscard]] std::string_view why() const noexcept { return why_; }
  /// The identifier that the last command has destroyed: the program's number, and the number of events that
  /// the program must acknowledge. `uid` 0: none.
  struct Destroyed {
    uint64_t uid = 0;
    uint32_t events = 0;
  };
  [[nodiscard]] Destroyed destroyed() const noexcept { return destroyed_; }
  [[nodiscard]] CounterSet<CommandCounter>& counters() noexcept { return counters_; }

 private:
  /// Parameters of one command.
  struct Call {
    Instant now{};
    CmFile& file;
    std::span<const std::byte> body{};
    size_t answer_bytes = 0;  // room for the answer
    CmId* id = nullptr;       // the identifier that the command names
  };
  using Handler = int (Commands::*)(Call&) noexcept;
  struct Row {
    const char* name;
    size_t body_bytes;
    size_t answer_bytes;
    size_t id_at;  // offset of the identifier in the body; kNoId: none
    Handler handler;
  };
  static constexpr size_t kNoId = ~size_t{0};
  [[nodiscard]] static std::span<const Row> rows() noexcept;
  friend const char* command_name(uint32_t number) noexcept;

  int create_id(Call& call) noexcept;
  int destroy_id(Call& call) noexcept;
  int bind_ip(Call& call) noexcept;
  int bind(Call& call) noexcept;
  int resolve_ip(Call& call) noexcept;
  int resolve_addr(Call& call) noexcept;
  int resolve_route(Call& call) noexcept;
  int query_route(Call& call) noexcept;
  int query(Call& call) noexcept;
  int connect(Call& call) noexcept;
  int ask_for_connection(Call& call, const rdma_ucm_conn_param& param) noexcept;
  int ask_for_service(Call& call, const rdma_ucm_conn_param& param) noexcept;
  static int asked(CmId& id, Connection* connection) noexcept;
  int listen(Call& call) noexcept;
  int accept(Call& call) noexcept;
  int reject(Call& call) noexcept;
  int disconnect(Call& call) noexcept;
  int init_qp_attr(Call& call) noexcept;
  int get_event(Call& call) noexcept;
  int get_option(Call& call) noexcept;
  int set_option(Call& call) noexcept;
  int notify(Call& call) noexcept;
  int resolve_ib_service(Call& call) noexcept;
  int write_cm_event(Call& call) noexcept;
  int join_ip_mcast(Call& call) noexcept;
  int join_mcast(Call& call) noexcept;
  int leave_mcast(Call& call) noexcept;
  int migrate_id(Call& call) noexcept;

  int bind_to(CmId& id, const IpAddress& address) noexcept;
  int resolve_to(Call& call, const IpAddress& from, const IpAddress& to, uint32_t timeout_ms) noexcept;
  int accept_datagrams(Call& call, const rdma_ucm_accept& command) noexcept;
  int take_route(CmId& id) noexcept;
  int join(Call& call, const IpAddress& address, uint64_t uid, uint64_t answer) noexcept;
  void fill_path(const CmId& id, ib_user_path_rec& path) noexcept;

  int refuse(int error, std::string_view why) noexcept {
    why_ = why;
    return error;
  }

  Endnode& node_;
  CounterSet<CommandCounter> counters_;
  std::string_view why_;
  Destroyed destroyed_;
};

}  // namespace weft::rdma_cm
