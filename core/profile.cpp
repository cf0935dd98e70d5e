// SPDX-License-Identifier: Apache-2.0
#include "core/profile.hpp"

#include <algorithm>
#include <chrono>
#include <map>

namespace bora {
namespace {

struct Sum {
  int64_t count = 0, total_ns = 0, self_ns = 0;
  double flops = 0, bytes = 0;
};

thread_local bool t_on = false;
thread_local ScopedRange* t_inner = nullptr;
thread_local std::map<std::string, Sum> t_sums;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

double now_s() { return static_cast<double>(now_ns()) * 1e-9; }

ScopedRange::ScopedRange(const char* name) {
  if (!t_on) return;
  name_ = name;
  outer_ = t_inner;
  t_inner = this;
  start_ns_ = now_ns();
}

ScopedRange::~ScopedRange() {
  if (name_ == nullptr) return;
  const int64_t ns = now_ns() - start_ns_;
  t_inner = outer_;
  if (outer_ != nullptr) outer_->inner_ns_ += ns;
  if (!t_on) return;
  Sum& sum = t_sums[name_];
  ++sum.count;
  sum.total_ns += ns;
  sum.self_ns += ns - inner_ns_;
  sum.flops += flops_;
  sum.bytes += bytes_;
}

void profile_add_work(double flops, double bytes) {
  if (t_inner == nullptr) return;
  t_inner->flops_ += flops;
  t_inner->bytes_ += bytes;
}

void profile_enable(bool on) {
  t_on = on;
  t_sums.clear();
}
bool profile_enabled() { return t_on; }

std::vector<RangeTotal> profile_totals() {
  std::vector<RangeTotal> out;
  for (const auto& [name, sum] : t_sums)
    out.push_back({name, sum.count, static_cast<double>(sum.total_ns) * 1e-9,
                   static_cast<double>(sum.self_ns) * 1e-9, sum.flops, sum.bytes});
  std::sort(out.begin(), out.end(),
            [](const RangeTotal& a, const RangeTotal& b) { return a.self_s > b.self_s; });
  return out;
}

}  // namespace bora
