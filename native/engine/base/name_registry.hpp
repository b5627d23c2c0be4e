// Registry of policies by name: built-in ones, and those that a program adds before it runs.
//
// The only engine state that outlives an engine. It only grows: an entry stays at its address and is never rewritten,
// so any number of threads may look names up without a lock, even while one thread adds.
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
  kNameTaken,         // a built-in policy, or one added earlier, has the name
  kFull,              // kAddedPoliciesMax were added
  kFunctionsInvalid,  // a required function is null, or the state exceeds kPolicyStateWordsMax
};

inline constexpr std::size_t kPolicyNameBytesMax = 31;
inline constexpr std::size_t kAddedPoliciesMax = 64;
inline constexpr std::uint32_t kPolicyStateWordsMax = 4096;  // 32 KiB per QP

template <typename Entry, std::size_t kBuiltIn>
class NameRegistry {
 public:
  constexpr NameRegistry(const std::array<std::string_view, kBuiltIn>& names,
                         const std::array<Entry, kBuiltIn>& entries) {
    std::copy(names.begin(), names.end(), names_.begin());
    std::copy(entries.begin(), entries.end(), entries_.begin());
  }

  // One caller at a time; concurrent readers are allowed.
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

  // nullptr for an unknown name.
  const Entry* find(std::string_view name) const {
    const auto known = names();
    const auto found = std::find(known.begin(), known.end(), name);
    return found == known.end() ? nullptr : &entries_[static_cast<std::size_t>(found - known.begin())];
  }

  // Built-in names first, then the added ones in order of registration.
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
