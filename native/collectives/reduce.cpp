#include "collectives/reduce.hpp"

#include "collectives/reduce_kernels.hpp"

namespace openmrc::collectives {
namespace {

const ReduceTable& best_reductions() {
  static const ReduceTable* table = avx2_reductions() != nullptr ? avx2_reductions() : &portable_reductions();
  return *table;
}

// Applies `change` to every element, as a value.
template <typename Element, typename Change>
void each(std::uint8_t* data, std::size_t count, Change change) {
  using Stored = typename Element::Stored;
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, data + i * sizeof stored, sizeof stored);
    stored = Element::store(change(Element::load(stored)));
    std::memcpy(data + i * sizeof stored, &stored, sizeof stored);
  }
}

// Calls `run` with the element's traits.
template <typename Run>
void with_element(ElementType type, Run run) {
  switch (type) {
    case ElementType::kFloat64:
      return run(Plain<double>{});
    case ElementType::kFloat32:
      return run(Plain<float>{});
    case ElementType::kFloat16:
      return run(Float16{});
    case ElementType::kBfloat16:
      return run(Bfloat16{});
    case ElementType::kInt64:
      return run(Plain<std::int64_t>{});
    case ElementType::kInt32:
      return run(Plain<std::int32_t>{});
    case ElementType::kInt16:
      return run(Plain<std::int16_t>{});
    case ElementType::kInt8:
      return run(Plain<std::int8_t>{});
    case ElementType::kUint8:
      return run(Plain<std::uint8_t>{});
    case ElementType::kBool:
      return run(Bool{});
  }
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  std::size_t bytes = 0;
  with_element(type, [&bytes](auto element) { bytes = sizeof(typename decltype(element)::Stored); });
  return bytes;
}

bool reducible(ElementType type, ReduceOp op) {
  return portable_reductions().loops[0][static_cast<std::size_t>(type)][static_cast<std::size_t>(op)] != nullptr;
}

void reduce(ElementType type, ReduceOp op, void* into, const void* with, std::size_t count, bool reversed) {
  const auto& loops = best_reductions().loops[reversed ? 1 : 0];
  const ReduceLoop loop = loops[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
  MRC_ASSERT(loop != nullptr);
  loop(static_cast<std::uint8_t*>(into), static_cast<const std::uint8_t*>(with), count);
}

void scale(ElementType type, void* data, std::size_t count, double factor) {
  with_element(type, [&](auto element) {
    using Value = typename decltype(element)::Value;
    each<decltype(element)>(static_cast<std::uint8_t*>(data), count, [factor](Value value) {
      if constexpr (std::is_same_v<Value, float>) return value * static_cast<float>(factor);
      return static_cast<Value>(static_cast<double>(value) * factor);
    });
  });
}

void divide(ElementType type, void* data, std::size_t count, std::uint32_t divisor) {
  MRC_ASSERT(divisor > 0);
  with_element(type, [&](auto element) {
    using Value = typename decltype(element)::Value;
    each<decltype(element)>(static_cast<std::uint8_t*>(data), count, [divisor](Value value) {
      if constexpr (std::is_floating_point_v<Value>) return value / static_cast<Value>(divisor);
      return static_cast<Value>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(divisor));
    });
  });
}

const char* reduce_engine() { return best_reductions().name; }

}  // namespace openmrc::collectives
