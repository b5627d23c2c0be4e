#include "engine/wire/crc32.hpp"

#include <atomic>

#include "engine/wire/crc32_table.hpp"
#include "engine/wire/crc32_vector.hpp"

namespace openmrc::wire {

// constinit: usable before the constructor of any global has run.
constinit const Crc32Tables kCrc32Tables = make_crc32_tables();

namespace {

std::uint32_t update_table(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  return crc32_table(state, bytes, count);
}

std::uint32_t update_first(std::uint32_t state, const std::uint8_t* bytes, std::size_t count);

// Starts as a function that replaces itself. Two threads that race here store the same value.
constinit std::atomic<Crc32Function> g_update{&update_first};

std::uint32_t update_first(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  std::array<Crc32Engine, kCrc32EnginesMax> engines;
  crc32_engines(engines);
  const Crc32Function chosen = engines[0].update;
  g_update.store(chosen, std::memory_order_relaxed);
  return chosen(state, bytes, count);
}

}  // namespace

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::uint8_t> bytes) {
  return g_update.load(std::memory_order_relaxed)(state, bytes.data(), bytes.size());
}

std::size_t crc32_engines(std::span<Crc32Engine, kCrc32EnginesMax> engines) {
  std::size_t count = crc32_vector_engines(engines);
  engines[count++] = {"table", &update_table};
  return count;
}

}  // namespace openmrc::wire
