// Memory and doorbells that other processes of this host may open, by what their owner tells of them. Nothing of it has
// a name in the file system, so nothing is left when the last process that uses it is gone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic/file_descriptor.hpp"

namespace openmrc::collectives {

// An open file of a process. The device and inode tell whether what is found there is what was meant.
struct ProcessFile {
  std::uint64_t process = 0, descriptor = 0, device = 0, inode = 0;
};

class SharedMemory {
 public:
  SharedMemory() = default;
  // Zeros, of a size that nobody can change any more. Throws NicError.
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Another process's. Not valid: it cannot be reached, or is not as the constructor above makes it.
  static SharedMemory open(const ProcessFile& file, std::size_t bytes);

  bool valid() const { return base_ != nullptr; }
  std::uint8_t* base() { return base_; }
  // For others to open, until hide().
  ProcessFile file() const;
  void hide() { file_.reset(); }

 private:
  void map(std::size_t bytes);

  nic::FileDescriptor file_;
  std::uint8_t* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// Wakes its owner, who sleeps until fd() is readable. A pipe: unlike an eventfd, another process can open it.
class Doorbell {
 public:
  Doorbell();  // throws NicError
  int fd() const { return reading_.get(); }
  ProcessFile file() const;
  void clear();
  void ring();  // by the owner itself
  void close() {
    reading_.reset();
    writing_.reset();
  }

 private:
  nic::FileDescriptor reading_, writing_;  // the writing end is kept: without any, the reading one were always readable
};

// Another process's doorbell.
class RemoteDoorbell {
 public:
  // False: it cannot be reached.
  bool open(const ProcessFile& file);
  void ring();

 private:
  nic::FileDescriptor writing_;
};

}  // namespace openmrc::collectives
