// Threads that wait for datagrams spin only where the latest waits ended while they did.
#include "nic/spin_forecast.hpp"

#include "tests/check.hpp"

namespace {

using openmrc::nic::kNsPerUs;
using openmrc::nic::SpinForecast;

// One wait for a datagram that arrives after `us` of spinning, or as soon as the thread sleeps. True: it spun at first.
bool wait(SpinForecast& forecast, int us) {
  const bool spun = forecast.spins(0);
  forecast.ended(forecast.spins(us * kNsPerUs));
  return spun;
}

constexpr int kNever = 1000;

TEST_CASE(nic_spin_forecast_keeps_while_answers_come) {
  SpinForecast forecast;
  for (int i = 0; i < 1000; ++i) {
    CHECK(wait(forecast, 10));
    CHECK(forecast.spins(SpinForecast::kSpin - 1));
    CHECK(!forecast.spins(SpinForecast::kSpin));
  }
}

TEST_CASE(nic_spin_forecast_forgives_one_spin_in_vain) {
  SpinForecast forecast;
  for (int i = 0; i < 100; ++i) {
    CHECK(wait(forecast, kNever));
    CHECK(wait(forecast, 10));
  }
}

TEST_CASE(nic_spin_forecast_sleeps_where_spins_are_in_vain) {
  SpinForecast forecast;
  int spun = 0;
  for (int i = 0; i < 10000; ++i) spun += wait(forecast, kNever) ? 1 : 0;
  CHECK(spun >= 10);
  CHECK(spun <= 40);
}

TEST_CASE(nic_spin_forecast_returns_after_one_answer) {
  SpinForecast forecast;
  for (int i = 0; i < 10000; ++i) wait(forecast, kNever);
  std::uint32_t waits = 0;
  while (!wait(forecast, 10)) ++waits;
  CHECK(waits <= SpinForecast::kSleepsMax);
  for (int i = 0; i < 100; ++i) CHECK(wait(forecast, 10));
}

}  // namespace
