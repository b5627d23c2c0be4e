// Written by tools/spec.py from spec/path-rules.toml: edit that, then `make spec`.
#pragma once

#include "bindings/nic_objects.hpp"
#include "bindings/record.hpp"
#include "nic/path_rules.hpp"

namespace openmrc::bindings {

inline constexpr FieldRule kPathCopyFields[] = {
    {.name = "from_peer", .kind = FieldKind::kBoolean, .required = true},
    {.name = "at", .kind = FieldKind::kInteger, .required = true, .max = 127},
    {.name = "bits", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 128},
    {.name = "to", .kind = FieldKind::kInteger, .required = true, .max = 127},
};
static_assert(std::size(kPathCopyFields) <= kFieldsMax);
inline constexpr RecordRule kPathCopy{"PathCopy", kPathCopyFields};

inline constexpr FieldRule kPathRuleFields[] = {
    {.name = "prefix", .kind = FieldKind::kText, .required = true},
    {.name = "prefix_bits", .kind = FieldKind::kInteger, .required = true, .max = 128},
    {.name = "base", .kind = FieldKind::kText, .required = true},
    {.name = "copies", .kind = FieldKind::kRecord, .record = &kPathCopy, .list = true},
};
static_assert(std::size(kPathRuleFields) <= kFieldsMax);
inline constexpr RecordRule kPathRule{"PathRule", kPathRuleFields};

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, nic::PathCopy& to) {
  const Values values = check(kPathCopy, from);
  take(values[0], to.from_peer);
  take(values[1], to.at);
  take(values[2], to.bits);
  take(values[3], to.to);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, nic::PathRule& to) {
  const Values values = check(kPathRule, from);
  take_address(values[0], to.prefix);
  take(values[1], to.prefix_bits);
  take_address(values[2], to.base);
  for (const nb::handle one : items(values[3])) read(nb::borrow<nb::dict>(one.ptr()), to.copies.emplace_back());
}

}  // namespace openmrc::bindings
