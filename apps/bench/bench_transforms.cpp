// SPDX-License-Identifier: Apache-2.0
// bench_transforms: nanoseconds a voxel of each transform, or a picture of what a configuration
// draws (docs/data/transforms.md).
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "apps/bench/transform_timing.hpp"
#include "core/config.hpp"
#include "core/error.hpp"
#include "data/colour_map.hpp"
#include "data/image.hpp"
#include "data/output_place.hpp"
#include "data/volume_dataset.hpp"

namespace bora::bench {
namespace {

struct TransformBenchConfig {
  Dims3 patch{64, 64, 64};
  int64_t channels = 1;
  int repeats = 5;
  std::string picture;
  int64_t index = 0;
  uint64_t seed = 0;
  data::VolumesConfig volumes;

  static constexpr auto fields() {
    using C = TransformBenchConfig;
    return std::tuple{
        field("patch", &C::patch, "timing: cells along x, y, z", positive),
        field("channels", &C::channels, "timing: channels of the image", between(1, 64)),
        field("repeats", &C::repeats, "timing: repeats of which the best counts", positive),
        field("picture", &C::picture,
              "draw this PNG instead: five training patches as they are and as volumes.transforms "
              "vary them, with their labels"),
        field("case", &C::index, "which case of the volumes the picture shows", at_least(0)),
        field("seed", &C::seed, "of what is drawn for the picture"),
        field("volumes", &C::volumes,
              "what the picture shows; without volumes.root a made-up image"),
    };
  }
};

constexpr int64_t kColumns = 5, kZoom = 3, kGap = 6;

/// Pictures of one extent in rows and columns.
class Page {
 public:
  Page(int64_t nx, int64_t ny) : nx_(nx * kZoom), ny_(ny * kZoom) {
    rgb_.assign(static_cast<size_t>(3 * width() * height()), 255);
  }
  /// colour(x, y) of the cells, y upwards.
  template <class Colour>
  void put(int64_t row, int64_t column, Colour&& colour) {
    for (int64_t py = 0; py < ny_; ++py)
      for (int64_t px = 0; px < nx_; ++px) {
        const data::Rgb c = colour(px / kZoom, (ny_ - 1 - py) / kZoom);
        const int64_t at = (row * (ny_ + kGap) + py) * width() + column * (nx_ + kGap) + px;
        uint8_t* pixel = rgb_.data() + 3 * at;
        pixel[0] = c.r, pixel[1] = c.g, pixel[2] = c.b;
      }
  }
  void save(const std::string& path) const { data::write_png(path, width(), height(), rgb_); }

 private:
  int64_t width() const { return kColumns * (nx_ + kGap) - kGap; }
  int64_t height() const { return 4 * (ny_ + kGap) - kGap; }

  int64_t nx_, ny_;
  std::vector<uint8_t> rgb_;
};

/// The middle level of a sample: its image in row `row`, its labels below; padding is brown.
void put(const data::Sample& s, int64_t row, int64_t column, int64_t n_classes, double low,
         double high, Page& page) {
  const int64_t ny = s.input.size(1), nz = s.input.size(2);
  const auto cell = [&](int64_t x, int64_t y) { return (x * ny + y) * nz + nz / 2; };
  page.put(row, column, [&](int64_t x, int64_t y) -> data::Rgb {
    if (s.valid.data<uint8_t>()[cell(x, y)] == 0) return {200, 120, 90};
    const auto v = static_cast<double>(s.input.data<float>()[cell(x, y) * s.input.size(3)]);
    const auto grey = static_cast<uint8_t>(std::clamp((v - low) / (high - low), 0.0, 1.0) * 255);
    return {grey, grey, grey};
  });
  page.put(row + 1, column, [&](int64_t x, int64_t y) -> data::Rgb {
    if (s.region.data<uint8_t>()[cell(x, y)] == 0) return {200, 120, 90};
    const double label = s.target.data<uint8_t>()[cell(x, y)];
    return data::colour(data::ColourMap::sequential, label / static_cast<double>(n_classes - 1));
  });
}

struct Pair {
  data::Sample before, after;
};

/// A made-up image as a data set would read it.
Pair made_up(const TransformBenchConfig& c, const RngKey& key) {
  const Dims3& p = c.volumes.patch;
  const data::Geometry g = draw_geometry(c.volumes.transforms, key);
  const Dims3 m = margin_for(g, p);
  Pair out{made_up_sample(p, 1), made_up_sample({p.d + 2 * m.d, p.h + 2 * m.h, p.w + 2 * m.w}, 1)};
  apply_transforms(out.after, g, m, c.volumes.transforms, key, 0);
  return out;
}

void draw(TransformBenchConfig c) {
  std::unique_ptr<data::VolumeDataset> volumes;
  if (!c.volumes.root.empty()) volumes = std::make_unique<data::VolumeDataset>(c.volumes);
  if (volumes == nullptr && c.volumes.patch.count() == 0) c.volumes.patch = {64, 64, 32};
  if (volumes == nullptr)
    check_transforms(c.volumes.transforms, {.patch = c.volumes.patch, .n_classes = 3});
  const int64_t n_classes = volumes ? volumes->n_classes() : 3;
  std::unique_ptr<Page> page;
  for (int64_t i = 0; i < kColumns; ++i) {
    const RngKey key{c.seed, rng_stream("augment", 0, static_cast<uint64_t>(i))};
    const auto read = [&]() -> Pair {
      return {volumes->read_window(c.index, volumes->patch_window(c.index, key)),
              volumes->read(c.index, data::WindowChoice::random(key))};
    };
    const Pair p = volumes ? read() : made_up(c, key);
    if (!page) page = std::make_unique<Page>(p.before.input.size(0), p.before.input.size(1));
    const float* first = p.before.input.data<float>();
    const auto [low, high] = std::minmax_element(first, first + p.before.input.numel());
    for (const data::Sample* s : {&p.before, &p.after})
      put(*s, s == &p.before ? 0 : 2, i, n_classes, static_cast<double>(*low),
          std::max(static_cast<double>(*high), static_cast<double>(*low) + 1e-6), *page);
    const std::array<double, 3> spacing =
        volumes ? volumes->at(c.index).spacing : std::array<double, 3>{1, 1, 1};
    const data::Geometry g = draw_geometry(c.volumes.transforms, key, spacing);
    const Dims3 m =
        margin_for(g, {p.before.input.size(0), p.before.input.size(1), p.before.input.size(2)});
    std::printf(
        "sample %d: mirrored %d%d%d, rotation %.1f %.1f %.1f deg, zoom %.2f, warp %.2f cells, "
        "margin %lld %lld %lld\n",
        static_cast<int>(i), g.flip[0], g.flip[1], g.flip[2], g.rotation_deg[0], g.rotation_deg[1],
        g.rotation_deg[2], g.zoom, g.elastic, static_cast<long long>(m.d),
        static_cast<long long>(m.h), static_cast<long long>(m.w));
  }
  page->save(c.picture);
  std::printf("%s: image and labels as they are, below as varied; the middle level along z\n",
              c.picture.c_str());
}

int run(int argc, char** argv) {
  TransformBenchConfig c;
  const ConfigArgs args = config_parse_args(c, "bench_transforms", {argv + 1, argv + argc},
                                            {"Times the transforms, or draws what they do.", ""});
  if (!args.help.empty()) {
    std::fputs(args.help.c_str(), stdout);
    return 0;
  }
  if (!c.picture.empty()) {
    const std::string what = "picture '" + c.picture + "'";
    data::require_suffix(c.picture, {".png"}, what);
    data::check_folder_of(c.picture, what);
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
