#include "collectives/progress.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "nic/clock.hpp"
#include "nic/start_thread.hpp"

namespace openmrc::collectives {
namespace {

using nic::now_ns;
using nic::TimeNs;

// While each call is waited for at once, the helpers stand back for this long: each look of theirs takes a processor from
// a rank. Less than half of the time after which peers that hear nothing send again.
constexpr TimeNs kStreak = 4 * nic::kNsPerMs;
constexpr int kNapMs = 100, kStreakNapMs = kStreak / nic::kNsPerMs;
// Longest sleep of a waiting thread between two looks, when something has just come and when little does.
constexpr TimeNs kNapMin = 200 * nic::kNsPerUs, kNapMax = nic::kNsPerMs;
// An operation that has waited so long compares its call with those of the ranks that it waits for.
constexpr std::int64_t kLongWaitNs = 50'000'000;
// With larger messages the time on the way counts, not who wakes when.
constexpr std::size_t kPolledBytesMax = 64U << 10;

}  // namespace

Progress::Progress(const ExecutorSettings& settings, std::mutex& mutex, std::condition_variable& ended,
                   Transports& transports, PlanRunner& runner)
    : spin_(settings.spin),
      poll_(settings.poll),
      mutex_(mutex),
      ended_(ended),
      transports_(transports),
      runner_(runner),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Progress::start() {
  thread_ = nic::start_thread([this] { run(); });
}

void Progress::stop() {
  stop_ = true;
  ended_.notify_all();
  wake();
}

void Progress::leave_to_parent() {
  wake_.reset();
  // The child has neither the thread nor those that wait: joining the one or destroying the other would wait for ever.
  new (&thread_) std::thread;
  new (&ended_) std::condition_variable;
}

// --- the thread

void Progress::run() {
  std::array<pollfd, 3> fds{
      {{wake_.get(), POLLIN, 0},
       {transports_.remote().descriptor(Sleeper::kThread), POLLIN, 0},
       {transports_.has_local() ? transports_.local().descriptor(Sleeper::kThread) : -1, POLLIN, 0}}};
  int nap_ms = kNapMs;
  for (;;) {
    ::poll(fds.data(), fds.size(), nap_ms);
    std::uint64_t rings = 0;
    if (fds[0].revents != 0) {
      [[maybe_unused]] const ssize_t bytes = ::read(fds[0].fd, &rings, sizeof rings);
    }
    if (fds[1].revents != 0) transports_.remote().clear(Sleeper::kThread);
    if (fds[2].revents != 0) transports_.local().clear(Sleeper::kThread);
    const std::unique_lock guard(mutex_);
    if (stop_) return;
    const Operations& operations = runner_.operations();
    forecast_.doubt(now_ns(), operations.made(), spinners_ == 0 && operations.running() > 0);
    if (spinners_ == 0 && operations.running() > 0 && !forecast_.waits_expected()) runner_.drive();
    watch_later();
    nap_ms = forecast_.waits_expected() && !transports_.attended() ? kStreakNapMs : kNapMs;
  }
}

// The thread shall wake when something comes, unless somebody polls.
void Progress::watch() {
  while (spinners_ == 0 && runner_.operations().running() > 0 && !transports_.closed()) {
    watches_ = true;
    if (!runner_.arm(Sleeper::kThread)) return;
    runner_.drive();
  }
}

void Progress::stop_watching() {
  if (std::exchange(watches_, false)) transports_.disarm(Sleeper::kThread);
}

// After a new operation. For those that nobody waits for after all the thread looks by time.
void Progress::watch_later() {
  if (!forecast_.waits_expected()) watch();
}

void Progress::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

// --- waiting

OpState Progress::await(std::unique_lock<std::mutex>& guard, const std::shared_ptr<Operation>& op,
                        std::int64_t timeout_ns) {
  const Wait wait{.op = op, .timeout_ns = timeout_ns, .begun = now_ns()};
  if (!over(wait)) await(guard, wait);
  return op->state;
}

void Progress::await_end(std::unique_lock<std::mutex>& guard, std::uint64_t seen, std::int64_t timeout_ns) {
  const Operations& operations = runner_.operations();
  if (operations.ended() > seen || stop_) return;
  const Wait wait{operations.first_running(), seen, timeout_ns, now_ns()};
  // Two threads that drive would both wake for whatever comes.
  if (wait.op != nullptr && spinners_ == 0) return await(guard, wait);
  ended_.wait_for(guard, std::chrono::nanoseconds(timeout_ns), [&] { return operations.ended() > seen || stop_; });
}

bool Progress::over(const Wait& wait) const {
  return wait.op->state != OpState::kRunning || runner_.operations().ended() > wait.seen || stop_;
}

void Progress::await(std::unique_lock<std::mutex>& guard, const Wait& wait) {
  const Operation& op = *wait.op;
  if (forecast_.waited(wait.begun)) wake();  // the thread's naps are short from now on
  const Operations& operations = runner_.operations();
  if (forecast_.waits_expected() && operations.running() == 1 && !operations.all_near()) transports_.attend(kStreak);
  ++spinners_;
  stop_watching();
  // Callers that notice Ctrl-C wait in parts: one in which nothing comes continues the part before.
  const bool goes_on = idle_.op == op.id && idle_.left == op.left;
  const TimeNs idle_since = spin(guard, wait, goes_on ? idle_.since : wait.begun);
  idle_ = {op.id, op.left, idle_since};
  --spinners_;
  watch();
  if (over(wait)) return;
  if (spinners_ == 0) transports_.rest();
  const auto done = [&] { return over(wait); };
  const std::int64_t spent_ns = now_ns() - wait.begun;
  const std::int64_t left_ns = wait.timeout_ns < 0 ? INT64_MAX : std::max<std::int64_t>(wait.timeout_ns - spent_ns, 0);
  const std::int64_t first_ns = std::min(left_ns, std::max<std::int64_t>(kLongWaitNs - spent_ns, 0));
  if (ended_.wait_for(guard, std::chrono::nanoseconds(first_ns), done) || left_ns <= first_ns) return;
  runner_.compare_calls(*wait.op);
  if (wait.timeout_ns < 0) {
    ended_.wait(guard, done);
  } else {
    ended_.wait_for(guard, std::chrono::nanoseconds(left_ns - first_ns), done);
  }
}

// Until the wait is over, or nothing has come for the time to spin. Returns the time since when nothing has come.
TimeNs Progress::spin(std::unique_lock<std::mutex>& guard, const Wait& wait, TimeNs idle_since) {
  TimeNs now = wait.begun;
  Operation& op = *wait.op;
  const Plan& plan = op.next_plan == nullptr ? *op.plan : *op.next_plan;
  const bool small = !plan.receives_more_than(kPolledBytesMax) && !plan.sends_more_than(kPolledBytesMax);
  while (!over(wait)) {
    const TimeNs idle = now - idle_since;
    if (idle > spin_ || (wait.timeout_ns >= 0 && now - wait.begun > wait.timeout_ns)) break;
    const bool polls = (small || op.near) && idle < poll_;
    const bool something = polls && runner_.operations().all_near()
                               ? poll_local(guard)
                               : poll_all(guard, polls, std::clamp(idle / 4, kNapMin, kNapMax));
    if (over(wait)) break;
    now = now_ns();
    if (something) idle_since = now;
    if (now - wait.begun >= kLongWaitNs) runner_.compare_calls(op);  // whatever comes, of other operations too
  }
  return idle_since;
}

// One look. The I/O thread looks after the device meanwhile. True: something came.
bool Progress::poll_local(std::unique_lock<std::mutex>& guard) {
  if (runner_.drive_local()) return true;
  guard.unlock();
  std::this_thread::yield();  // whom we wait for may need this processor
  guard.lock();
  return false;
}

// One look at all transports, or asleep until something comes, for `nap` at most. True: something came.
bool Progress::poll_all(std::unique_lock<std::mutex>& guard, bool polls, TimeNs nap) {
  const bool near = runner_.operations().all_near();
  const bool sleeps = !polls && !runner_.arm(Sleeper::kWaiter);
  const std::uint64_t taken = transports_.local_messages();
  guard.unlock();
  const std::uint32_t datagrams = sleeps ? transports_.await(nap, near) : transports_.progress();
  if (polls && datagrams == 0) std::this_thread::yield();  // whom we wait for may need this processor
  guard.lock();
  if (sleeps) transports_.disarm(Sleeper::kWaiter);
  runner_.drive();
  return datagrams > 0 || transports_.local_messages() != taken;
}

}  // namespace openmrc::collectives
