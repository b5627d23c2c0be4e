// The path file of a NIC (docs/reference/path-file.md) as a device.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "verbs/device_description.hpp"

namespace openmrc::verbs {

// Says which field has which value, and what is allowed.
struct PathFileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws PathFileError. The device has no name.
DeviceDescription parse_path_file(std::string_view text);
DeviceDescription read_path_file(const std::string& file);

}  // namespace openmrc::verbs
