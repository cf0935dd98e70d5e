// SPDX-License-Identifier: Apache-2.0
// Packs, divisions, and what goes over flat arrays: optimizer updates and gradient statistics,
// against the CPU's.
#include "kernels/cuda/fast_divide.hpp"
#include "kernels/cuda/vector.hpp"
#include "kernels/grad_stats.hpp"
#include "kernels/optim.hpp"
#include "tests/cuda/device_case.hpp"

namespace bora::kernels {
namespace {

using namespace bora::test;  // NOLINT: the support of this suite

class CudaFlat : public OnDevice {};

TEST(FastDivide, IsDivision) {
  for (const int64_t d : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{40}, int64_t{128},
                          int64_t{641}, int64_t{65536}, int64_t{1000003}, (int64_t{1} << 31) - 1}) {
    const cuda::FastDivide fast(d);
    for (const int64_t q : {int64_t{0}, int64_t{1}, int64_t{5}, ((int64_t{1} << 31) - 1) / d})
      for (int64_t n = q * d - 2; n <= q * d + 2; ++n) {
        if (n < 0 || n >= (int64_t{1} << 31)) continue;
        auto rest = static_cast<uint32_t>(n);
        EXPECT_EQ(n / d, fast.split(rest)) << n << " / " << d;
        EXPECT_EQ(n % d, rest);
      }
  }
  EXPECT_THROW(cuda::FastDivide(0), Error);
}

template <class T>
void expect_packs_as_elements() {
  constexpr int V = cuda::kPack<T>;
  alignas(16) T memory[3 * V];
  for (int i = 0; i < 3 * V; ++i) memory[i] = static_cast<T>(0.37f * static_cast<float>(i) - 1.3f);
  for (const int at : {0, V, 1, V - 1})
    for (const int n : {V, 1, V - 1}) {
      const bool whole = at % V == 0 && n == V;
      acc_t<T> v[V];
      cuda::unpack<T>(cuda::load_some(memory + at, n, whole), v);
      for (int j = 0; j < V; ++j)
        EXPECT_EQ(j < n ? static_cast<double>(load(memory[at + j])) : 0.0,
                  static_cast<double>(v[j]));
      alignas(16) T out[3 * V] = {};
      cuda::store_some(out + at, cuda::pack<T>(v), n, whole);
      for (int j = 0; j < 3 * V; ++j)
        EXPECT_EQ(j >= at && j < at + n ? static_cast<double>(load(memory[j])) : 0.0,
                  static_cast<double>(load(out[j])));
    }
}

TEST(CudaPacks, AreTheirElements) {
  expect_packs_as_elements<Half>();
  expect_packs_as_elements<BFloat16>();
  expect_packs_as_elements<float>();
  alignas(16) const float memory[8] = {};
  EXPECT_THROW(cuda::load_bits(memory + 1), Error);
}

OptimBuffers to(const OptimBuffers& b, int64_t shift) {
  const auto move = [&](const Tensor& t) {
    if (!t.defined()) return Tensor();
    if (t.rank() == 0) return t.to(bora::cuda(0));
    Tensor view = empty_on_device(t.shape(), t.dtype(), shift);
    view.copy_from(t);
    return view;
  };
  return {.gradient = move(b.gradient),
          .master = move(b.master),
          .slot0 = move(b.slot0),
          .slot1 = move(b.slot1),
          .working = move(b.working),
          .skip = move(b.skip)};
}

// The formula is one functor; g++ may contract it differently in a vector loop, hence a bound.
TEST_F(CudaFlat, UpdatesAsTheCpuDoes) {
  for (const DType gradient : {DType::f32, DType::f16, DType::bf16})
    for (const DType working : {DType::f16, DType::bf16})
      for (const int64_t n : {1, 7, 8, 9, 2047, 10007})
        for (const int64_t shift : {0, 1})
          for (const int kind : {0, 1, 2}) {  // adamw, sgd with momentum, sgd
            SCOPED_TRACE(testing::Message()
                         << gradient << " " << working << " " << n << " " << shift << " " << kind);
            OptimBuffers host{
                .gradient = make_tensor({n}, normal_values(n, 1), gradient, cpu()),
                .master = make_tensor({n}, normal_values(n, 2), DType::f32, cpu()),
                .slot0 =
                    kind < 2 ? make_tensor({n}, normal_values(n, 3), DType::f32, cpu()) : Tensor(),
                .slot1 = kind == 0
                             ? make_tensor({n}, uniform_values(n, 0.1, 1, 4), DType::f32, cpu())
                             : Tensor(),
                .working = Tensor::zeros({n}, working),
                .skip = {}};
            OptimBuffers device = to(host, shift);
            const auto step = [&](OptimBuffers& b) {
              const Stream stream = b.master.stream();
              if (kind == 0)
                adamw(stream, {.weight_decay = 0.1, .step = 3, .gradient_factor = 0.5}, b);
              else
                sgd(stream, {.momentum = kind == 1 ? 0.9 : 0.0, .weight_decay = 0.1}, b);
            };
            step(host);
            step(device);
            const auto same = [&](const Tensor& want, const Tensor& got, const char* name) {
              if (!want.defined()) return;
              const std::vector<double> v = values_of(want);
              EXPECT_EQ("",
                        differences(
                            host_values(got), v,
                            (gamma(8, DType::f32) +
                             (want.dtype() == DType::f32 ? 0.0 : 2 * unit_roundoff(want.dtype()))) *
                                (1.0 + max_abs(v))))
                  << name;
            };
            same(host.master, device.master, "master");
            same(host.slot0, device.slot0, "slot0");
            same(host.slot1, device.slot1, "slot1");
            // The copy is exactly the rounded master.
            EXPECT_TRUE(host_bytes(to_host(device.master).to(working)) ==
                        host_bytes(device.working));
          }
}

TEST_F(CudaFlat, SkippedUpdateWritesNothing) {
  const int64_t n = 100;
  OptimBuffers b{.gradient = make_tensor({n}, normal_values(n, 1), DType::f32, cpu()),
                 .master = make_tensor({n}, normal_values(n, 2), DType::f32, cpu()),
                 .slot0 = Tensor::zeros({n}, DType::f32),
                 .slot1 = Tensor::zeros({n}, DType::f32),
                 .working = Tensor::zeros({n}, DType::f16),
                 .skip = Tensor::full({}, 1.0, DType::u8)};
  OptimBuffers device = to(b, 0);
  adamw(device_stream(), {}, device);
  EXPECT_TRUE(host_bytes(b.master) == host_bytes(device.master));
  EXPECT_EQ(0.0, max_abs(host_values(device.slot0)));
  EXPECT_EQ(0.0, max_abs(host_values(device.working)));
}

TEST_F(CudaFlat, GradientStatisticsMatchF64) {
  for (const DType type : kDeviceFloats)
    for (const int64_t n : {0, 1, 7, 8, 9, 255, 10007, 70001})
      for (const bool bad : {false, true}) {
        SCOPED_TRACE(testing::Message() << type << " " << n << " " << bad);
        std::vector<double> values = normal_values(n, 3);
        if (bad && n > 8) values[3] = std::nan(""), values[static_cast<size_t>(n) - 1] = HUGE_VAL;
        std::vector<double> bits[2];
        for (const int64_t shift : {0, 1}) {
          const Tensor g = on_device({n}, values, type, shift);
          const std::vector<Tensor> got = under_all_schedules([&] {
            Tensor out = empty_on_device({3}, DType::f64), scaled = g.clone(),
                   out2 = empty_on_device({3}, DType::f64);
            grad_stats(device_stream(), g, out);
            unscale_and_stats(device_stream(), 0.5, scaled, out2);
            return std::vector<Tensor>{out, scaled, out2};
          });
          double squares = 0, largest = 0, n_bad = 0;
          for (const double v : host_values(g)) {
            if (!std::isfinite(v)) {
              ++n_bad;
              continue;
            }
            squares += v * v;
            largest = std::max(largest, std::abs(v));
          }
          const std::vector<double> out = host_values(got[0]), half = host_values(got[2]);
          EXPECT_NEAR(squares, out[0], gamma(static_cast<double>(n) + 10, DType::f64) * squares);
          EXPECT_EQ(n_bad, out[1]);
          EXPECT_EQ(largest, out[2]);
          EXPECT_EQ(largest / 2, half[2]);
          EXPECT_EQ(n_bad, half[1]);
          EXPECT_NEAR(squares / 4, half[0], 1e-3 * squares + 1e-12);
          std::vector<double> want = host_values(g);
          for (double& v : want) v *= 0.5;
          EXPECT_EQ("", differences(host_values(got[1]), want, absolute_floor(type)));
          bits[shift] = out;
        }
        EXPECT_EQ(bits[0], bits[1]);
      }
}

}  // namespace
}  // namespace bora::kernels
