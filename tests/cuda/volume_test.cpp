// SPDX-License-Identifier: Apache-2.0
// Pooling, interpolation and copies 16 bytes at a time: the CPU's bits for what moves, f64 for what
// sums; and the same where packs do not fit.
#include "kernels/cuda/volume_packs.hpp"

#include "kernels/pool3d.hpp"
#include "kernels/rearrange.hpp"
#include "kernels/resample.hpp"
#include "tests/cuda/device_case.hpp"

namespace bora::kernels {
namespace {

using namespace bora::test;  // NOLINT: the support of this suite

class CudaVolume : public OnDevice {};

TEST_F(CudaVolume, MaxPoolMovesTheCpusBits) {
  for (const DType type : kDeviceFloats)
    for (const Dims3 size : {Dims3{2, 2, 2}, Dims3{5, 7, 3}, Dims3{6, 4, 10}})
      for (const int64_t channels : {3, 8, 32})
        for (const int64_t shift : {0, 1})
          for (const auto mode : {GradientMode::overwrite, GradientMode::add}) {
            SCOPED_TRACE(testing::Message()
                         << type << " " << size << " " << channels << " " << shift);
            const Shape large{2, size.d, size.h, size.w, channels},
                small{2, size.d / 2, size.h / 2, size.w / 2, channels};
            std::vector<double> values = normal_values(large.numel(), 1);
            values[5] = std::nan("");
            values[1] = values[static_cast<size_t>(channels) + 1];  // equals: the first wins
            const Tensor x = make_tensor(large, values, type, cpu());
            const Tensor dy = make_tensor(small, normal_values(small.numel(), 2), type, cpu());
            Tensor y = Tensor::empty(small, type), winner = Tensor::empty(small, DType::u8),
                   dx = make_tensor(large, normal_values(large.numel(), 3), type, cpu());
            max_pool3d_forward(x.stream(), {}, x, y, winner);
            const std::vector<double> before = values_of(dx);
            max_pool3d_backward(x.stream(), {}, dy, winner, mode, dx);
            const Tensor x2 = on_device(large, values, type, shift),
                         dy2 = on_device(small, values_of(dy), type, shift);
            const std::vector<Tensor> got = under_all_schedules([&] {
              Tensor y2 = empty_on_device(small, type, shift),
                     winner2 = empty_on_device(small, DType::u8, shift),
                     dx2 = on_device(large, before, type, shift);
              max_pool3d_forward(device_stream(), {}, x2, y2, winner2);
              max_pool3d_backward(device_stream(), {}, dy2, winner2, mode, dx2);
              return std::vector<Tensor>{y2, winner2, dx2};
            });
            EXPECT_EQ("", differences(host_values(got[0]), values_of(y), 0.0));
            EXPECT_TRUE(host_bytes(winner) == host_bytes(got[1]));
            EXPECT_TRUE(host_bytes(dx) == host_bytes(got[2]));
          }
}

TEST_F(CudaVolume, TrilinearMatchesF64) {
  struct Sizes {
    Dims3 from, to;
  };
  for (const DType type : kDeviceFloats)
    for (const Sizes& s :
         {Sizes{{3, 4, 5}, {6, 8, 10}}, Sizes{{1, 2, 7}, {2, 4, 14}}, Sizes{{5, 5, 5}, {7, 3, 9}},
          Sizes{{2, 3, 4}, {7, 9, 12}}, Sizes{{4, 4, 4}, {4, 4, 4}}})
      for (const int64_t channels : {5, 8, 24}) {
        SCOPED_TRACE(testing::Message() << type << " " << s.from << " " << s.to << " " << channels);
        const Shape small{2, s.from.d, s.from.h, s.from.w, channels},
            large{2, s.to.d, s.to.h, s.to.w, channels};
        const Tensor x = on_device(small, normal_values(small.numel(), 1), type);
        const Tensor dy = on_device(large, normal_values(large.numel(), 2), type);
        const std::vector<Tensor> got = under_all_schedules([&] {
          Tensor y = empty_on_device(large, type), dx = empty_on_device(small, type);
          upsample_trilinear_forward(device_stream(), x, y);
          upsample_trilinear_backward(device_stream(), dy, dx);
          return std::vector<Tensor>{y, dx};
        });
        const Tensor x64 = Tensor::from<double>(small, host_values(x)),
                     dy64 = Tensor::from<double>(large, host_values(dy));
        Tensor y = Tensor::empty(large, DType::f64), dx = Tensor::empty(small, DType::f64);
        upsample_trilinear_forward(x64.stream(), x64, y);
        upsample_trilinear_backward(dy64.stream(), dy64, dx);
        // Weights of three roundings and sums of 8 (4^3 at twice the extent, up to 8^3 beyond)
        // terms up to 5.
        EXPECT_EQ("", differences(host_values(got[0]), values_of(y), relative_bound(type, 16) * 8));
        EXPECT_EQ("",
                  differences(host_values(got[1]), values_of(dx), relative_bound(type, 80) * 64));
      }
}

// A NaN beside a target that takes nothing of it.
TEST_F(CudaVolume, TrilinearLeavesANanAloneThatIsNotTaken) {
  const Shape shape{1, 2, 2, 2, 8};
  std::vector<double> values(static_cast<size_t>(shape.numel()), 1.0);
  values[0] = std::nan("");
  const Tensor dy = on_device(shape, values, DType::f16);
  Tensor dx = empty_on_device(shape, DType::f16);
  upsample_trilinear_backward(device_stream(), dy, dx);
  const std::vector<double> got = host_values(dx);
  EXPECT_TRUE(std::isnan(got[0]));
  for (size_t i = 1; i < got.size(); ++i) EXPECT_EQ(1.0, got[i]) << i;
}

TEST_F(CudaVolume, CopiesMoveTheCpusBits) {
  for (const DType type : {DType::f16, DType::f32, DType::u8, DType::i64})
    for (const int64_t channels : {3, 8, 16, 48})
      for (const int64_t shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << type << " " << channels << " " << shift);
        const Shape part{2, 3, 4, 5, channels}, whole{2, 3, 4, 5, 2 * channels};
        const Tensor a = make_tensor(part, integer_values(part.numel(), 100, 1), type, cpu()),
                     b = make_tensor(part, integer_values(part.numel(), 100, 2), type, cpu());
        const auto moved = [&](const Tensor& t) {
          Tensor view = empty_on_device(t.shape(), t.dtype(), shift);
          view.copy_from(t);
          return view;
        };
        const auto run = [&](const Tensor& p, const Tensor& q, const auto& make) {
          const Stream stream = p.stream();
          Tensor joined = make(whole), cut = make(part), back = make(whole),
                 padded = make(Shape{2, 5, 5, 7, channels}),
                 cropped = make(Shape{2, 2, 3, 4, channels});
          concat_channels(stream, {p, q}, joined);
          slice_channels(stream, channels, joined, cut);
          slice_channels_backward(stream, channels, cut, back);
          pad(stream, {1, 0, 2}, 7.0, p, padded);
          crop(stream, {1, 1, 0}, p, cropped);
          return std::vector<Tensor>{joined, cut, back, padded, cropped};
        };
        const std::vector<Tensor> want =
            run(a, b, [&](const Shape& s) { return Tensor::zeros(s, type); });
        const Tensor a2 = moved(a), b2 = moved(b);
        const std::vector<Tensor> got = under_all_schedules([&] {
          return run(a2, b2, [&](const Shape& s) { return empty_on_device(s, type, shift); });
        });
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(host_bytes(want[i]) == host_bytes(got[i])) << "copy " << i;
      }
}

}  // namespace
}  // namespace bora::kernels
