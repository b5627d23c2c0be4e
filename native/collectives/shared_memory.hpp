// Memory and doorbells that other processes of this host may open by a description from their owner. Neither has a name
// in the file system, so nothing is left when the last process that uses it ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic/file_descriptor.hpp"

namespace openmrc::collectives {

// An open file of a process. Device and inode verify the identity of an opened file.
struct ProcessFile {
  std::uint64_t process = 0, descriptor = 0, device = 0, inode = 0;
  bool operator==(const ProcessFile&) const = default;
};

class SharedMemory {
 public:
  enum class Access : std::uint8_t { kReadWrite, kRead };  // of other processes

  SharedMemory() = default;
  // Zeroed memory of a sealed size. Throws NicError.
  explicit SharedMemory(std::size_t bytes, Access access = Access::kReadWrite);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Opens another process's memory. Invalid: unreachable, or not created by the constructor above.
  static SharedMemory open(const ProcessFile& file, std::size_t bytes, Access access = Access::kReadWrite);

  bool valid() const { return base_ != nullptr; }
  std::uint8_t* base() { return base_; }
  // Description for other processes, until hide().
  ProcessFile file() const;
  void hide() { file_.reset(); }

 private:
  void map(std::size_t bytes, int protection);

  nic::FileDescriptor file_;
  std::uint8_t* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// Wakes its owner, which sleeps until fd() is readable. A pipe: unlike an eventfd, another process can open it.
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
  nic::FileDescriptor reading_,
      writing_;  // the writing end stays open, or the reading one would always be readable
};

// Another process's doorbell.
class RemoteDoorbell {
 public:
  // False: unreachable.
  bool open(const ProcessFile& file);
  void ring();

 private:
  nic::FileDescriptor writing_;
};

}  // namespace openmrc::collectives
