// Strict reading of records that Python passes as dictionaries, by the rules that spec/*.toml describes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/base/time.hpp"

namespace openmrc::bindings {

namespace nb = nanobind;

enum class FieldKind : std::uint8_t {
  kInteger,  // 0 to 2^64 - 1, also enumerations; not a bool
  kBoolean,
  kText,
  kObject,  // of a Python class; the native side does not read it
  kRecord,  // a dictionary with rules of its own
};

struct Choice {
  std::uint64_t number;
  const char* name;
};

struct RecordRule;

struct FieldRule {
  const char* name;
  FieldKind kind = FieldKind::kInteger;
  bool required = false;
  bool nullable = false;  // None leaves the native default
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  std::uint64_t multiple_of = 1;
  std::span<const Choice> choices{};                       // not empty: the value is one of these, and has no range
  std::span<const std::string_view> (*names)() = nullptr;  // text: one of the names at the time of the check
  const char* type_name = "";                              // of an object
  const RecordRule* record = nullptr;                      // of a record
  bool list = false;                                       // a list of such values
};

struct RecordRule {
  const char* name;
  std::span<const FieldRule> fields;
};

inline constexpr std::size_t kFieldsMax = 32;  // of a record

// Values of a dictionary in the order of the record's fields, valid while the dictionary lives; null: absent.
using Values = std::array<PyObject*, kFieldsMax>;

// Raises openmrc.errors.ConfigError for a name that the record lacks, with its nearest name, and for a value that is
// missing, of the wrong type or not allowed.
Values check(const RecordRule& rule, const nb::dict& from);

std::uint64_t unsigned_of(nb::handle value);

// Reads a checked value, if present.
template <typename T>
void take(PyObject* value, T& to) {
  if (value == nullptr || value == Py_None) return;
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    to = nb::cast<T>(nb::handle(value));
  } else {
    to = static_cast<T>(unsigned_of(value));
  }
}

inline bool given(PyObject* value) { return value != nullptr && value != Py_None; }

// Of a checked list; empty where none is given.
inline nb::list items(PyObject* value) { return given(value) ? nb::borrow<nb::list>(value) : nb::list(); }

inline void take_time(PyObject* value, TimePs& to, TimePs unit) {
  if (given(value)) to = static_cast<TimePs>(unsigned_of(value)) * unit;
}

}  // namespace openmrc::bindings
