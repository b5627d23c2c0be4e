#include "collectives/call.hpp"

#include <span>

namespace openmrc::collectives {
namespace {

std::string name_of(std::span<const char* const> names, std::size_t number) {
  return number < names.size() ? names[number] : "unknown";
}

// Collects the differing arguments, in words.
class Differences {
 public:
  void add(const char* what, const std::string& theirs, const std::string& own) {
    if (theirs == own) return;
    text_ += (text_.empty() ? "" : " and ") + std::string(what) + " (" + theirs + ", here " + own + ")";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

constexpr const char* kAdvice = "; make the same call at all ranks";

std::string call_of(const Call& call) { return "its call of " + name_of(kCallKinds, call.kind) + " differs in "; }

}  // namespace

std::string byte_count(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

std::string difference(const Call& theirs, const Call& own) {
  if (theirs.kind == 0 || own.kind == 0) return {};
  Differences found;
  found.add("operation", name_of(kCallKinds, theirs.kind), name_of(kCallKinds, own.kind));
  if (found.text().empty()) {  // arguments of different operations are not comparable
    found.add("size", byte_count(theirs.bytes), byte_count(own.bytes));
    found.add("element type", name_of(kCallTypes, theirs.type), name_of(kCallTypes, own.type));
    found.add("reduction", name_of(kCallReductions, theirs.reduction), name_of(kCallReductions, own.reduction));
    found.add("root", std::to_string(theirs.root), std::to_string(own.root));
  }
  if (found.text().empty()) {  // by default it follows from the size
    found.add("algorithm", name_of(kCallAlgorithms, theirs.algorithm), name_of(kCallAlgorithms, own.algorithm));
  }
  if (found.text().empty()) return {};
  return call_of(theirs) + found.text() + kAdvice;
}

std::string message_difference(const Call& call, const std::string& theirs, std::uint64_t own_bytes) {
  if (call.kind == 0) return std::string("its call differs in operation, size or element type") + kAdvice;
  return call_of(call) + "size of a message (" + theirs + ", here " + byte_count(own_bytes) + ")" + kAdvice;
}

}  // namespace openmrc::collectives
