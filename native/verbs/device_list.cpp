// Devices: their list, names and numbers.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "verbs/errors.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::array<void*, 32> kNoOps{};

using Devices = std::vector<ListedDevice*>;

Devices* list_devices() {
  auto made = std::make_unique<Devices>();
  for (DeviceDescription& description : describe_devices()) {
    auto* device = new ListedDevice{};
    device->ops = &kNoOps;
    device->device.node_type = IBV_NODE_CA;
    device->device.transport_type = IBV_TRANSPORT_IB;
    description.name.copy(device->device.name, IBV_SYSFS_NAME_MAX - 1);
    const std::string verbs = "uverbs" + std::to_string(made->size());
    verbs.copy(device->device.dev_name, IBV_SYSFS_NAME_MAX - 1);
    ("/sys/class/infiniband_verbs/" + verbs).copy(device->device.dev_path, IBV_SYSFS_PATH_MAX - 1);
    ("/sys/class/infiniband/" + description.name).copy(device->device.ibdev_path, IBV_SYSFS_PATH_MAX - 1);
    device->description = std::move(description);
    made->push_back(device);
  }
  return made.release();
}

// No static object with an initial value: a fork during its initialization would leave the child waiting for the end.
constinit std::mutex listing;
constinit Devices* found_devices = nullptr;

// Devices exist for the whole life of the process: programs use them after ibv_free_device_list().
const Devices& devices() {
  const std::lock_guard guard(listing);
  if (found_devices == nullptr) found_devices = list_devices();
  return *found_devices;
}

ListedDevice* listed(const ibv_device* device) {
  for (ListedDevice* one : devices()) {
    if (&one->device == device) return one;
  }
  return nullptr;
}

}  // namespace

VERBS_API ibv_device** ibv_get_device_list(int* count) {
  ibv_device** list = nullptr;
  const int error = guarded([&] {
    const std::vector<ListedDevice*>& all = devices();
    list = static_cast<ibv_device**>(std::calloc(all.size() + 1, sizeof(ibv_device*)));
    if (list == nullptr) return ENOMEM;
    for (std::size_t i = 0; i < all.size(); ++i) list[i] = &all[i]->device;
    if (count != nullptr) *count = static_cast<int>(all.size());
    return 0;
  });
  if (error == 0) return list;
  if (count != nullptr) *count = 0;
  errno = error;
  return nullptr;
}

VERBS_API void ibv_free_device_list(ibv_device** list) { std::free(list); }

VERBS_API const char* ibv_get_device_name(ibv_device* device) { return device == nullptr ? nullptr : device->name; }

VERBS_API int ibv_get_device_index(ibv_device* device) {
  const std::vector<ListedDevice*>& all = devices();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (&all[i]->device == device) return static_cast<int>(i);
  }
  return -1;
}

// A locally administered EUI-64 from the first address.
VERBS_API __be64 ibv_get_device_guid(ibv_device* device) {
  const ListedDevice* found = listed(device);
  if (found == nullptr) return 0;
  const ibv_gid gid = gid_of(found->description.planes.front().advertise);
  std::array<std::uint8_t, 8> guid{0x02, 'm', 'r', 'c', gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]};
  __be64 number = 0;
  std::memcpy(&number, guid.data(), sizeof number);
  return number;
}

ListedDevice* find_device(const ibv_device* device) { return listed(device); }

void lock_device_list() { listing.lock(); }

void unlock_device_list() { listing.unlock(); }

}  // namespace openmrc::verbs
