// Detects that interfaces or addresses of this network namespace appear, vanish or change, without details.
#pragma once

#include "nic/file_descriptor.hpp"

namespace openmrc::nic {

class InterfaceWatch {
 public:
  // If a sandbox refuses netlink, fd() is -1 and the caller has to poll for changes.
  void open();
  int fd() const { return socket_.get(); }
  // Reads pending notices. True: something changed, or notices were lost.
  bool drain();

 private:
  FileDescriptor socket_;
};

}  // namespace openmrc::nic
