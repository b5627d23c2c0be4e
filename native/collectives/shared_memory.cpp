#include "collectives/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "nic/error.hpp"

namespace openmrc::collectives {
namespace {

// Shrinking the file would crash its users. The owner's mapping is older than the seal and stays writable.
int seals_of(SharedMemory::Access access) {
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return access == SharedMemory::Access::kRead ? kSize | F_SEAL_FUTURE_WRITE : kSize;
}

ProcessFile describe(const nic::FileDescriptor& fd) {
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) throw nic::NicError(errno, "cannot look at a file of this process");
  return {static_cast<std::uint64_t>(::getpid()), static_cast<std::uint64_t>(fd.get()), found.st_dev, found.st_ino};
}

bool is_it(const struct stat& found, const ProcessFile& file, mode_t kind) {
  return (found.st_mode & S_IFMT) == kind && found.st_dev == file.device && found.st_ino == file.inode;
}

// Checks the file before opening it, as opening another kind of file could have side effects.
nic::FileDescriptor open_file(const ProcessFile& file, mode_t kind, int access = O_RDWR) {
  const std::string path = "/proc/" + std::to_string(file.process) + "/fd/" + std::to_string(file.descriptor);
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0 || !is_it(found, file, kind)) return {};
  nic::FileDescriptor fd(::open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !is_it(found, file, kind)) return {};
  return fd;
}

// A full pipe is readable already, as intended.
void write_one(int pipe) {
  const char one = 1;
  [[maybe_unused]] const ssize_t written = ::write(pipe, &one, sizeof one);
}

}  // namespace

// --- memory

SharedMemory::SharedMemory(std::size_t bytes, Access access)
    : file_(::memfd_create("openmrc-collectives", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!file_.valid() || ::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) {
    throw nic::NicError(errno, "cannot make memory to share");
  }
  map(bytes, PROT_READ | PROT_WRITE);
  if (!valid()) throw nic::NicError(errno, "cannot map memory to share");
  if (::fcntl(file_.get(), F_ADD_SEALS, seals_of(access)) != 0) {
    const int error = errno;
    ::munmap(std::exchange(base_, nullptr), bytes);
    throw nic::NicError(error, "cannot seal memory to share");
  }
}

SharedMemory::~SharedMemory() {
  if (valid()) ::munmap(base_, bytes_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory SharedMemory::open(const ProcessFile& file, std::size_t bytes, Access access) {
  const bool reads = access == Access::kRead;
  SharedMemory memory;
  memory.file_ = open_file(file, S_IFREG, reads ? O_RDONLY : O_RDWR);
  struct stat found{};
  if (!memory.file_.valid() || ::fstat(memory.file_.get(), &found) != 0) return {};
  const int seals = ::fcntl(memory.file_.get(), F_GET_SEALS), wanted = seals_of(access);
  if (found.st_size != static_cast<off_t>(bytes) || seals < 0 || (seals & wanted) != wanted) return {};
  memory.map(bytes, reads ? PROT_READ : PROT_READ | PROT_WRITE);
  memory.hide();
  return memory;
}

ProcessFile SharedMemory::file() const { return describe(file_); }

void SharedMemory::map(std::size_t bytes, int protection) {
  void* base = ::mmap(nullptr, bytes, protection, MAP_SHARED, file_.get(), 0);
  if (base == MAP_FAILED) return;
  base_ = static_cast<std::uint8_t*>(base);
  bytes_ = bytes;
}

// --- doorbells

Doorbell::Doorbell() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) throw nic::NicError(errno, "cannot create a pipe");
  reading_ = nic::FileDescriptor(ends[0]);
  writing_ = nic::FileDescriptor(ends[1]);
}

ProcessFile Doorbell::file() const { return describe(reading_); }

void Doorbell::clear() {
  std::array<char, 512> rings;
  while (::read(reading_.get(), rings.data(), rings.size()) == static_cast<ssize_t>(rings.size())) {
  }
}

void Doorbell::ring() { write_one(writing_.get()); }

bool RemoteDoorbell::open(const ProcessFile& file) {
  // For reading, too: a pipe whose reader has died would end us with a signal.
  writing_ = open_file(file, S_IFIFO);
  return writing_.valid();
}

void RemoteDoorbell::ring() { write_one(writing_.get()); }

}  // namespace openmrc::collectives
