// A refusal by the operating system, in words, with its errno. Raised in Python as openmrc.DeviceError.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

namespace openmrc::nic {

class NicError : public std::runtime_error {
 public:
  NicError(int code, const std::string& what) : std::runtime_error(what + ": " + std::strerror(code)), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace openmrc::nic
