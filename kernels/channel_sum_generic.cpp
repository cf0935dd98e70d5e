// SPDX-License-Identifier: Apache-2.0
#include "kernels/channel_sum_generic.hpp"

#include "kernels/reduce.hpp"

namespace bora::kernels::generic {
namespace {

/// db[c] = (or +=) sum of dy[r, c].
template <class T, class Out>
struct ChannelSum {
  using Element = acc_t<T>;
  static constexpr int kWidth = 1;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;

  const T* dy;
  Out* db;
  bool add_to;

  BORA_HD State identity() const { return {{Element(0)}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const { s.v[0] += load(dy[offset]); }
  BORA_HD void merge(State& a, const State& b) const { a.v[0] += b.v[0]; }
  BORA_HD void store(int64_t, int64_t column, const State& s) const {
    const auto sum = static_cast<acc_t<Out>>(s.v[0]);
    db[column] = static_cast<Out>(add_to ? load(db[column]) + sum : sum);
  }
};

template <class T, class Out>
void run(Stream stream, const Tensor& dy, GradientMode mode, Tensor& db) {
  const int64_t columns = dy.size(-1), rows = columns == 0 ? 0 : dy.numel() / columns;
  reduce_columns(stream, 1, rows, columns,
                 ChannelSum<T, Out>{dy.data<T>(), db.data<Out>(), mode == GradientMode::add});
}

}  // namespace

void channel_sum(Stream stream, const Tensor& dy, GradientMode mode, Tensor& db) {
  dispatch_float(dy.dtype(), "channel_sum", [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      if (db.dtype() == DType::f32) return run<T, float>(stream, dy, mode, db);
    }
    run<T, T>(stream, dy, mode, db);
  });
}

}  // namespace bora::kernels::generic
