// Policies by name: those that come with the engine, and those that a program adds before it runs.
//
// The one thing in the engine that outlives an engine. It only grows: what a reader found stays where it is and is never
// written again, so any number of threads may look names up without a lock, also while one thread adds.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace openmrc {

enum class RegisterResult : std::uint8_t {
  kOk,
  kNameInvalid,       // not a letter followed by letters, digits, `_`, `-`, `.`; or longer than kPolicyNameBytesMax
  kNameTaken,         // by a policy that comes with the engine, or one that was added
  kFull,              // kAddedPoliciesMax were added
  kFunctionsInvalid,  // one that is needed is null, or more state than kPolicyStateWordsMax
};

inline constexpr std::size_t kPolicyNameBytesMax = 31;
inline constexpr std::size_t kAddedPoliciesMax = 64;
inline constexpr std::uint32_t kPolicyStateWordsMax = 4096;  // 32 KiB: each QP has its own

template <typename Entry, std::size_t kBuiltIn>
class NameRegistry {
 public:
  constexpr NameRegistry(const std::array<std::string_view, kBuiltIn>& names,
                         const std::array<Entry, kBuiltIn>& entries) {
    std::copy(names.begin(), names.end(), names_.begin());
    std::copy(entries.begin(), entries.end(), entries_.begin());
  }

  // One thread at a time; readers need not be kept out.
  RegisterResult add(std::string_view name, const Entry& entry) {
    if (!valid(name)) return RegisterResult::kNameInvalid;
    if (find(name) != nullptr) return RegisterResult::kNameTaken;
    const std::size_t index = count_.load(std::memory_order_relaxed);
    if (index == names_.size()) return RegisterResult::kFull;
    auto& letters = letters_[index - kBuiltIn];
    std::copy(name.begin(), name.end(), letters.begin());
    names_[index] = {letters.data(), name.size()};
    entries_[index] = entry;
    count_.store(index + 1, std::memory_order_release);
    return RegisterResult::kOk;
  }

  // nullptr: no such name.
  const Entry* find(std::string_view name) const {
    const auto known = names();
    const auto found = std::find(known.begin(), known.end(), name);
    return found == known.end() ? nullptr : &entries_[static_cast<std::size_t>(found - known.begin())];
  }

  // Built-in ones first, then in the order in which they were added.
  std::span<const std::string_view> names() const { return {names_.data(), count_.load(std::memory_order_acquire)}; }

 private:
  static constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static constexpr bool is_rest(char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  }
  static bool valid(std::string_view name) {
    return !name.empty() && name.size() <= kPolicyNameBytesMax && is_letter(name.front()) &&
           std::all_of(name.begin(), name.end(), is_rest);
  }

  std::array<std::string_view, kBuiltIn + kAddedPoliciesMax> names_{};
  std::array<Entry, kBuiltIn + kAddedPoliciesMax> entries_{};
  std::array<std::array<char, kPolicyNameBytesMax>, kAddedPoliciesMax> letters_{};
  std::atomic<std::size_t> count_ = kBuiltIn;
};

}  // namespace openmrc
