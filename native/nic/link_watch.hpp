// Notices when interfaces or addresses of this network namespace come, go or change; nothing says which.
#pragma once

#include "nic/file_descriptor.hpp"

namespace openmrc::nic {

class LinkWatch {
 public:
  // A sandbox may refuse netlink: then fd() is -1, and changes have to be looked for by time.
  void open();
  int fd() const { return socket_.get(); }
  // Reads what is there. True: something changed, or notices were lost.
  bool drain();

 private:
  FileDescriptor socket_;
};

}  // namespace openmrc::nic
