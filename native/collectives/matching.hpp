// Matching of receives with the messages of their senders. Receives of an inbox begin in the order in which they were
// posted; one from any source takes the first message that is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/inbox.hpp"
#include "collectives/operations.hpp"
#include "collectives/remote_rank.hpp"

namespace openmrc::collectives {

// A receive that is due. Without a plan nobody can send to it any more.
struct Match {
  std::shared_ptr<Operation> op;
  std::shared_ptr<const Plan> plan;
  std::uint64_t key = 0;
};

class Matching {
 public:
  Matching(const Operations& operations, const RemoteRanks& ranks) : operations_(operations), ranks_(ranks) {}

  void post(Inbox& inbox, const Operation& op, int source, std::shared_ptr<const Plan> plan);
  // The next receive of the inbox that is due, taken from it; nullopt: the first one waits, and holds up those behind it.
  std::optional<Match> next(Inbox& inbox);

  // The inboxes in which receives wait.
  void enlist(const std::shared_ptr<Inbox>& inbox);
  std::size_t listed() const { return inboxes_.size(); }
  std::shared_ptr<Inbox> listed(std::size_t number) const { return inboxes_[number]; }
  void drop_empty();

  void close() { closed_ = true; }  // no receive waits from now on

 private:
  Inbox::Source* choose(Inbox& inbox) const;
  bool nobody_left(const Inbox& inbox) const;

  const Operations& operations_;
  const RemoteRanks& ranks_;
  std::vector<std::shared_ptr<Inbox>> inboxes_;
  bool closed_ = false;
};

}  // namespace openmrc::collectives
