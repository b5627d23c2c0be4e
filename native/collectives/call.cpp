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

std::string size_of(const Call& call) { return std::to_string(call.bytes) + " bytes"; }

}  // namespace

std::string difference(const Call& theirs, const Call& own) {
  if (theirs.kind == 0 || own.kind == 0) return {};
  Differences found;
  found.add("operation", name_of(kCallKinds, theirs.kind), name_of(kCallKinds, own.kind));
  if (found.text().empty()) {  // the arguments of different operations have nothing to do with each other
    found.add("size", size_of(theirs), size_of(own));
    found.add("element type", name_of(kCallTypes, theirs.type), name_of(kCallTypes, own.type));
    found.add("reduction", name_of(kCallReductions, theirs.reduction), name_of(kCallReductions, own.reduction));
    found.add("root", std::to_string(theirs.root), std::to_string(own.root));
  }
  if (found.text().empty()) {  // by default it follows from the size
    found.add("algorithm", name_of(kCallAlgorithms, theirs.algorithm), name_of(kCallAlgorithms, own.algorithm));
  }
  if (found.text().empty()) return {};
  return "its call of " + name_of(kCallKinds, theirs.kind) + " differs in " + found.text() +
         "; make the same call at all ranks";
}

}  // namespace openmrc::collectives
