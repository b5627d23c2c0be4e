// A thread that fetches completions while work is held behind others, for programs that do not poll meanwhile. It runs
// only then.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>

namespace openmrc::verbs {

struct Cq;

class Drainer {
 public:
  // Announces held work that waits for completions of this CQ.
  void add(Cq& cq);
  // Returns when the CQ is no longer in use here.
  void remove(Cq& cq);

 private:
  void run();

  std::mutex draining_;  // held during a pass; taken before the mutexes of CQs
  std::mutex mutex_;     // taken last
  std::condition_variable added_;
  std::unordered_set<Cq*> waiting_;
  bool started_ = false;
};

}  // namespace openmrc::verbs
