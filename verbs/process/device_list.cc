// The list of devices, and opening and closing. There is one device. Its struct lives as long as the process,
// because librdmacm compares the pointers of two lists.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"
#include "verbs/process/per_process.h"
#include "verbs/process/process_node.h"

namespace weft::verbs {
namespace {

/// Vendor libraries read private fields behind the struct before they know whose device it is. They must find
/// zeros.
struct ListedDevice {
  ibv_device device{};
  std::array<std::byte, 4096> slack{};
};

template <size_t kBytes>
void put(char (&field)[kBytes], const std::string& text) noexcept {
  const size_t bytes = std::min(text.size(), kBytes - 1);
  std::copy_n(text.data(), bytes, static_cast<char*>(field));
  field[bytes] = 0;
}

std::unique_ptr<ListedDevice> make_device() {
  auto out = std::make_unique<ListedDevice>();
  const std::string name = device_name();
  out->device.node_type = IBV_NODE_CA;
  out->device.transport_type = IBV_TRANSPORT_IB;
  put(out->device.name, name);
  put(out->device.dev_name, "uverbs0");
  put(out->device.dev_path, "/sys/class/infiniband_verbs/uverbs0");
  put(out->device.ibdev_path, "/sys/class/infiniband/" + name);
  return out;
}

ibv_device* the_device() {
  static ListedDevice* listed = make_device().release();
  return &listed->device;
}

/// Open devices of this process, so that ibv_import_device() can find them by descriptor. Never destroyed:
/// threads may open devices until the process ends.
struct OpenDevices {
  ForkedMutex mutex;
  std::vector<std::weak_ptr<OpenDevice>> all;
};
OpenDevices& open_devices() {
  static auto* instance = std::make_unique<OpenDevices>().release();
  return *instance;
}

/// Runs before the process has other threads: if fork() happened while another thread created the object, the
/// child would wait for that thread for ever.
[[gnu::constructor]] void make_list_at_load() {
  static_cast<void>(open_devices());
}

bool same_file(int one, int other) noexcept {
  struct stat first {};
  struct stat second {};
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

std::shared_ptr<OpenDevice> find_open(int fd) {
  OpenDevices& known = open_devices();
  const std::lock_guard lock(known.mutex);
  for (const std::weak_ptr<OpenDevice>& each : known.all) {
    if (std::shared_ptr<OpenDevice> device = each.lock();
        device != nullptr && same_file(device->command.get(), fd))
      return device;
  }
  return nullptr;
}

void remember(const std::shared_ptr<OpenDevice>& device) {
  OpenDevices& known = open_devices();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.all, [](const std::weak_ptr<OpenDevice>& each) { return each.expired(); });
  known.all.push_back(device);
}

ibv_context* make_context(ibv_device* device, std::shared_ptr<OpenDevice> open) {
  auto opened = std::make_unique<OpenContext>();
  opened->node = &open->node;
  opened->context = &open->context;
  opened->limits = &open->node.device().limits();
  set_operations(opened->wide);
  ibv_context& context = opened->wide.context;
  context.device = device;
  context.cmd_fd = open->command.get();
  context.async_fd = open->context.async_fd();
  context.num_comp_vectors = static_cast<int>(opened->limits->completion_vectors);
  pthread_mutex_init(&context.mutex, nullptr);
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  opened->device = std::move(open);
  return &opened.release()->wide.context;
}

ibv_context* open(ibv_device* device) {
  ProcessNode* node = ProcessNode::get();
  if (node == nullptr) return no_object(ENODEV);
  UniqueFd command(memfd_create("weft-device", MFD_CLOEXEC));
  if (!command.valid()) return no_object(errno);
  const hca::Made<hca::Context> made = node->device().open();
  if (made.object == nullptr) return no_object(made.refusal, "ibv_open_device");
  auto open = std::make_shared<OpenDevice>(*node, *made.object);
  open->command = GuardedFd(std::move(command));
  remember(open);
  return make_context(device, std::move(open));
}

}  // namespace

bool is_of_parent(const ProcessNode& node) noexcept {
  return node.forked();
}
bool in_child(ibv_context* context) noexcept {
  return is_of_parent(*ours(context).node);
}

OpenDevice::~OpenDevice() {
  node.device().close(&context);
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside

WEFT_VERBS_API ibv_device** ibv_get_device_list(int* count) {
  return guarded(static_cast<ibv_device**>(nullptr), [&] {
    const bool there = ProcessNode::get() != nullptr;
    // The size is that of a pointer, on purpose. NOLINTNEXTLINE(bugprone-sizeof-expression)
    auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
    if (list == nullptr) throw std::bad_alloc();
    if (there) list[0] = the_device();
    if (count != nullptr) *count = there ? 1 : 0;
    errno = 0;
    return list;
  });
}

WEFT_VERBS_API void ibv_free_device_list(ibv_device** list) {
  std::free(static_cast<void*>(list));
}

WEFT_VERBS_API const char* ibv_get_device_name(ibv_device* device) {
  return static_cast<const char*>(device->name);
}

WEFT_VERBS_API __be64 ibv_get_device_guid(ibv_device* /*device*/) {
  return guarded(__be64{0}, []() -> __be64 {
    ProcessNode* node = ProcessNode::get();
    return node != nullptr ? htobe64(node->guid().value()) : 0;
  });
}

WEFT_VERBS_API int ibv_get_device_index(ibv_device* /*device*/) {
  return 0;
}

WEFT_VERBS_API ibv_context* ibv_open_device(ibv_device* device) {
  return guarded(static_cast<ibv_context*>(nullptr), [&] { return open(device); });
}

WEFT_VERBS_API int ibv_close_device(ibv_context* context) {
  return guarded(ENOMEM, [&] {
    const std::unique_ptr<OpenContext> owned(&ours(context));
    pthread_mutex_destroy(&context->mutex);
    return 0;
  });
}

/// Makes another context for a device that this process has open. A device of another process cannot be
/// imported.
WEFT_VERBS_API ibv_context* ibv_import_device(int fd) {
  return guarded(static_cast<ibv_context*>(nullptr), [&]() -> ibv_context* {
    std::shared_ptr<OpenDevice> open = find_open(fd);
    if (open == nullptr) {
      explain("ibv_import_device: fd {}: not a command descriptor of this process", fd);
      return no_object(EOPNOTSUPP);
    }
    return make_context(the_device(), std::move(open));
  });
}
