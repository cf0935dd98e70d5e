// SPDX-License-Identifier: Apache-2.0
// bench_transforms: nanoseconds a voxel of each transform, or a picture of what a configuration
// draws (docs/data/transforms.md).
#include <algorithm>
#include <cstdio>

#include "apps/bench/transform_timing.hpp"
#include "core/config.hpp"
#include "core/error.hpp"
#include "data/colour_map.hpp"
#include "data/image.hpp"

namespace bora::bench {
namespace {

struct TransformBenchConfig {
  Dims3 patch{64, 64, 64};
  int64_t channels = 1;
  int repeats = 5;
  std::string picture;
  uint64_t seed = 0;
  data::TransformConfig transforms;

  static constexpr auto fields() {
    using C = TransformBenchConfig;
    return std::tuple{
        field("patch", &C::patch, "cells along x, y, z", positive),
        field("channels", &C::channels, "channels of the image", between(1, 64)),
        field("repeats", &C::repeats, "repeats of which the best counts", positive),
        field("picture", &C::picture,
              "draw this PNG instead: a made-up image and its labels, as they are and as the "
              "transforms vary them"),
        field("seed", &C::seed, "of what is drawn for the picture"),
        field("transforms", &C::transforms, "what the picture shows"),
    };
  }
};

constexpr int64_t kColumns = 6, kZoom = 3, kGap = 6;

/// The middle level of a sample, image above labels, into column `column` of the page.
void put(const data::Sample& s, int64_t column, int64_t width, std::vector<uint8_t>& page) {
  const int64_t nx = s.input.size(0), ny = s.input.size(1), nz = s.input.size(2);
  const float* image = s.input.data<float>();
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t py = 0; py < ny * kZoom; ++py)
      for (int64_t px = 0; px < nx * kZoom; ++px) {
        const int64_t x = px / kZoom, y = ny - 1 - py / kZoom;  // y upwards
        const int64_t cell = (x * ny + y) * nz + nz / 2;
        const double value = (static_cast<double>(image[cell * s.input.size(3)]) + 2) / 4;
        const auto grey = static_cast<uint8_t>(std::clamp(value, 0.0, 1.0) * 255);
        const double label = s.target.data<uint8_t>()[cell] / 2.0;
        data::Rgb c = row == 0 ? data::Rgb{grey, grey, grey}
                               : data::colour(data::ColourMap::sequential, label);
        if (s.region.data<uint8_t>()[cell] == 0) c = {200, 120, 90};
        const int64_t at =
            (row * (ny * kZoom + kGap) + py) * width + column * (nx * kZoom + kGap) + px;
        uint8_t* pixel = page.data() + 3 * at;
        pixel[0] = c.r, pixel[1] = c.g, pixel[2] = c.b;
      }
}

void draw(const TransformBenchConfig& c) {
  const Dims3& p = c.patch;
  const int64_t width = kColumns * (p.d * kZoom + kGap) - kGap;
  const int64_t height = 2 * (p.h * kZoom + kGap) - kGap;
  std::vector<uint8_t> page(static_cast<size_t>(3 * width * height), 255);
  put(made_up_sample(p, c.channels), 0, width, page);
  for (int64_t i = 1; i < kColumns; ++i) {
    const RngKey key{c.seed, rng_stream("augment", 0, static_cast<uint64_t>(i))};
    const data::Geometry g = draw_geometry(c.transforms, key);
    const Dims3 m = margin_for(g, p);
    data::Sample s = made_up_sample({p.d + 2 * m.d, p.h + 2 * m.h, p.w + 2 * m.w}, c.channels);
    apply_transforms(s, g, m, c.transforms, key, 0);
    put(s, i, width, page);
    std::printf(
        "sample %d: flip %d%d%d, turns %d%d%d, rotation %.1f %.1f %.1f deg, zoom %.2f, "
        "elastic %.2f cells, read %lld x %lld x %lld\n",
        static_cast<int>(i), g.flip[0], g.flip[1], g.flip[2], g.quarter_turns[0],
        g.quarter_turns[1], g.quarter_turns[2], g.rotation_deg[0], g.rotation_deg[1],
        g.rotation_deg[2], g.zoom, g.elastic, static_cast<long long>(p.d + 2 * m.d),
        static_cast<long long>(p.h + 2 * m.h), static_cast<long long>(p.w + 2 * m.w));
  }
  data::write_png(c.picture, width, height, page);
  std::printf("%s: as it is, then five samples; image above, labels below\n", c.picture.c_str());
}

int run(int argc, char** argv) {
  TransformBenchConfig c;
  const ConfigArgs args = config_parse_args(c, "bench_transforms", {argv + 1, argv + argc},
                                            {"Times the transforms, or draws what they do.", ""});
  if (!args.help.empty()) {
    std::fputs(args.help.c_str(), stdout);
    return 0;
  }
  data::TransformUse use;
  use.patch = c.patch;
  use.prefix = "transforms";
  check_transforms(c.transforms, use);
  if (!c.picture.empty()) {
    draw(c);
    return 0;
  }
  std::printf("%-28s %s\n", "transform", "ns/voxel");
  for (const TransformTime& t : time_transforms(c.patch, c.channels, c.repeats))
    std::printf("%-28s %8.2f\n", t.name.c_str(), t.ns_per_voxel);
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  try {
    return bora::bench::run(argc, argv);
  } catch (const bora::UsageError& e) {
    std::fprintf(stderr, "bench_transforms: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_transforms: %s\n", e.what());
    return 1;
  }
}
