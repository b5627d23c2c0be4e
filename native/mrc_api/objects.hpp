// The objects of the MRC API, made of verbs objects, and the access to openmrc's libibverbs behind them.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "openmrc/mrc.h"
#include "openmrc/mrc_ctl.h"
#include "verbs/live_objects.hpp"
#include "verbs/mrc_seam.hpp"

// A function that programs link against.
#define MRC_API extern "C" __attribute__((visibility("default")))

namespace openmrc::mrc_api {

class Controller;

// nullptr: the process uses another libibverbs, or one of another build.
verbs::MrcSeam* seam();

using verbs::add_live;
using verbs::is_live;
using verbs::remove_live;

// --- errors: every failure sets errno

// Result of `call`, an error number; exceptions become one.
template <typename Call>
int guarded(Call&& call) noexcept {
  int error = EIO;
  try {
    error = std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  } catch (...) {
  }
  if (error != 0) errno = error;
  return error;
}

template <typename Call>
int zero_or_minus_one(Call&& call) noexcept {
  return guarded(std::forward<Call>(call)) == 0 ? 0 : -1;
}

// The object that `make` stores, or nullptr.
template <typename Object, typename Make>
Object* made(Make&& make) noexcept {
  Object* object = nullptr;
  return guarded([&] { return make(object); }) == 0 ? object : nullptr;
}

// Of functions of libibverbs that return an error number, which some of them leave out of errno.
inline int errno_or(int otherwise) { return errno != 0 ? errno : otherwise; }

}  // namespace openmrc::mrc_api

struct mrc_context {
  ibv_context* verbs = nullptr;
  std::uint32_t api_version = 0;
  openmrc::mrc_api::Controller* controller = nullptr;  // of the device; never freed
  std::atomic<int> children{0};
};

struct mrc_comp_channel {
  ibv_comp_channel* verbs = nullptr;
  mrc_context* context = nullptr;
};

struct mrc_cq {
  ibv_cq* verbs = nullptr;
  mrc_context* context = nullptr;
  void* user = nullptr;
  std::atomic<int> users{0};  // QPs
  // Of a CQ for events about EVs alone.
  bool of_events = false;
  std::size_t events_max = 0;
  std::mutex mutex;
  std::deque<mrc_ctl_ev_event> events;
  std::uint32_t dropped = 0;  // since the latest event
};

struct mrc_qp_hint {
  mrc_context* context = nullptr;
  mrc_qp_hint_attr attributes{};
  std::mutex mutex;
  std::atomic<int> users{0};  // QPs
};

struct mrc_qp {
  ibv_qp* verbs = nullptr;
  mrc_context* context = nullptr;
  mrc_qp_init_attr init{};
  std::mutex mutex;  // covers what follows
  mrc_qp_hint* hint = nullptr;
  bool has_ev_profile = false, has_cc_profile = false;
  std::uint64_t ev_profile = 0, cc_profile = 0;
};
