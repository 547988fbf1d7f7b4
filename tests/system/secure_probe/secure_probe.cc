// Says what a program of the drop-in library and the preloaded object sees: devices, the connection manager
// and the tree below /sys. test_secure.py runs it with more rights than its user.
#include <dirent.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

int main() {
  std::printf("secure %lu\n", getauxval(AT_SECURE));
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    std::printf("device %s\n", ibv_get_device_name(devices[i]));
    if (ibv_context* context = ibv_open_device(devices[i]); context != nullptr) {
      std::puts("opened");
      ibv_close_device(context);
    }
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  const int manager = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  std::printf("manager %s\n", manager >= 0 ? "there" : strerror(errno));
  if (manager >= 0) close(manager);
  DIR* tree = opendir("/sys/class/infiniband");
  for (const dirent* entry = tree != nullptr ? readdir(tree) : nullptr; entry != nullptr;
       entry = readdir(tree))
    if (entry->d_name[0] != '.') std::printf("tree %s\n", entry->d_name);
  if (tree != nullptr) closedir(tree);
  return 0;
}
