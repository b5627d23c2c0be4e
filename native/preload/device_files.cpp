// Files of RDMA devices: stat() and access() of /dev/infiniband/uverbsN as if the device of openmrc with number N had one.
//
// Programs such as those with UCX look for the file before they use a device that ibv_get_device_list() names. They
// never open it. No file can stand there without root, so `openmrc run` preloads this library.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace {

constexpr std::string_view kPrefix = "/dev/infiniband/uverbs";
constexpr const char* kStandIn = "/dev/null";  // a character device that everyone may read and write

// Devices are separated by semicolons, as `openmrc run` writes them; a path file describes one.
unsigned device_count() {
  const char* file = std::getenv("OPENMRC_PATHS");
  if (file != nullptr && *file != '\0') return 1;
  const char* ports = std::getenv("OPENMRC_PORTS");
  if (ports == nullptr || *ports == '\0') return 0;
  const std::string_view text = ports;
  return static_cast<unsigned>(std::count(text.begin(), text.end(), ';')) + 1;
}

// The file that answers for `path`.
const char* answering(const char* path) {
  const std::string_view text = path == nullptr ? "" : path;
  if (!text.starts_with(kPrefix)) return path;
  const std::string_view digits = text.substr(kPrefix.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole && number < device_count() ? kStandIn : path;
}

// The function of the library behind this one.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

using Stat = int(const char*, struct stat*);
using Access = int(const char*, int);

// Before version 2.33 glibc has no such symbol, but one that takes the version of the structure.
int next_stat(const char* path, struct stat* to) {
  static Stat* const function = next<Stat>("stat");
  if (function != nullptr) return function(path, to);
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, to, 0));
}

}  // namespace

#define PRELOADED extern "C" __attribute__((visibility("default")))

PRELOADED int stat(const char* path, struct stat* to) noexcept { return next_stat(answering(path), to); }

// One structure serves both names on 64-bit systems.
PRELOADED int stat64(const char* path, struct stat64* to) noexcept {
  static_assert(sizeof(struct stat) == sizeof(struct stat64));
  return next_stat(answering(path), reinterpret_cast<struct stat*>(to));
}

PRELOADED int __xstat(int, const char* path, struct stat* to) noexcept { return next_stat(answering(path), to); }

PRELOADED int __xstat64(int, const char* path, struct stat64* to) noexcept {
  return next_stat(answering(path), reinterpret_cast<struct stat*>(to));
}

PRELOADED int access(const char* path, int mode) noexcept {
  static Access* const function = next<Access>("access");
  return function(answering(path), mode);
}
