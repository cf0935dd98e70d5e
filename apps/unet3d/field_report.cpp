// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/field_report.hpp"

#include <cmath>
#include <filesystem>
#include <sstream>

#include "apps/common/text.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "data/beyond_range.hpp"
#include "data/field_figure.hpp"
#include "data/orientation.hpp"
#include "data/volume_read.hpp"

namespace bora::unet3d {
namespace {

constexpr size_t kMostListed = 20;
constexpr size_t kMostClasses = 64;  // above it values are more likely an image's than labels

std::string orientation_text(const data::Affine& affine) {
  try {
    return data::orientation_of(affine);
  } catch (const Error&) {
    return "none (the affine is singular)";
  }
}

std::string values_text(const data::VolumeInfo& info, const data::ValueSummary& v) {
  std::ostringstream out;
  const int64_t total = v.n() + v.n_nan() + v.n_infinite();
  out << "    values: " << total << ", ";
  if (v.n() == 0)
    out << "none finite";
  else
    out << "min " << apps::six_digits(v.min()) << ", max " << apps::six_digits(v.max()) << ", mean "
        << apps::six_digits(v.moments().mean) << ", sigma "
        << apps::six_digits(std::sqrt(v.moments().variance()));
  out << (v.n_nan() == 0 ? std::string("; no NaN")
                         : detail::join("; ", v.n_nan(), " NaN or missing"));
  if (v.n_infinite() > 0) out << "; " << v.n_infinite() << " infinite";
  if (v.n() > 0 && (data::is_beyond_f32(v.min()) || data::is_beyond_f32(v.max())))
    out << "; some " << data::kBeyondF32;
  out << "\n";
  const size_t n_distinct = v.distinct().size();
  if (v.n() > 0 && (n_distinct == 0 || n_distinct > kMostClasses)) {
    out << "    percentiles:";
    for (const double p : {0.5, 5.0, 25.0, 50.0, 75.0, 95.0, 99.5})
      out << (p == 0.5 ? " " : ", ") << apps::six_digits(p)
          << " %: " << apps::six_digits(v.percentile(p));
    out << "\n";
  }
  if (n_distinct > kMostClasses) {
    out << "    " << n_distinct << " distinct values\n";
  } else if (n_distinct > 0 && (v.are_whole() || n_distinct <= kMostListed)) {
    out << "    " << counted(std::ssize(v.distinct()), "distinct value") << ":";
    size_t n = 0;
    for (const auto& [value, count] : v.distinct()) {
      if (n++ == kMostListed) {
        out << ", and " << n_distinct - kMostListed << " more";
        break;
      }
      out << (n == 1 ? " " : ", ") << apps::six_digits(value) << ": " << count << " ("
          << apps::brief(100.0 * static_cast<double>(count) / static_cast<double>(v.n())) << " %)";
    }
    out << "\n";
  }
  if (const std::string guess = guess_kind(info, v); !guess.empty())
    out << "    this looks like " << guess << "\n";
  return out.str();
}

void draw(const std::string& path, const data::VolumeFile& file, const data::ValueSummary& v) {
  const data::VolumeInfo& info = file.info();
  Tensor values = file.read({0, 0, 0}, info.grid, DType::f32);  // (X, Y, Z, C)
  if (info.channels > 1) {
    Tensor first = Tensor::empty({info.grid.d, info.grid.h, info.grid.w}, DType::f32);
    for (int64_t i = 0; i < first.numel(); ++i)
      first.data<float>()[i] = values.data<float>()[i * info.channels];
    values = first;
  }
  const bool few = !v.distinct().empty();
  data::draw_field(
      path, {.title = std::filesystem::path(info.source.path).filename().string(),
             .subtitle = detail::join(info.format, ", ", info.grid, " cells, ",
                                      info.channels > 1 ? "first channel, " : "", info.stored_type),
             .quantity = info.unit.empty() ? info.source.variable
                                           : info.source.variable + " (" + info.unit + ")",
             .values = values.reshape({info.grid.d, info.grid.h, info.grid.w}),
             .spacing = info.spacing,
             .low = few ? v.min() : v.percentile(0.5),
             .high = few ? v.max() : v.percentile(99.5)});
}

}  // namespace

std::string report_field(const data::VolumeSource& source, const FieldReportOptions& options,
                         std::vector<std::string>& problems) {
  const std::unique_ptr<data::VolumeFile> file = data::open_volume(source);
  const data::VolumeInfo& info = file->info();
  std::ostringstream out;
  out << "    grid along x, y, z: " << info.grid << " cells";
  if (info.channels > 1) out << ", " << info.channels << " channels";
  if (info.spacing[0] > 0)
    out << "; spacing " << apps::six_digits(info.spacing[0]) << " x "
        << apps::six_digits(info.spacing[1]) << " x " << apps::six_digits(info.spacing[2])
        << (info.spacing_unit.empty() ? "" : " ") << info.spacing_unit;
  out << "\n";
  if (info.affine) {
    out << "    orientation " << orientation_text(*info.affine) << ", affine";
    for (const auto& row : *info.affine)
      out << " [" << apps::six_digits(row[0]) << " " << apps::six_digits(row[1]) << " "
          << apps::six_digits(row[2]) << " " << apps::six_digits(row[3]) << "]";
    out << "\n";
  }
  const int64_t cells = info.grid.d * info.grid.h * info.grid.w * info.channels;
  int64_t bits = 0;  // "i16", "u8": of one value as it is stored
  for (size_t i = 1; i < info.stored_type.size() && std::isdigit(info.stored_type[i]); ++i)
    bits = 10 * bits + (info.stored_type[i] - '0');
  out << "    stored as " << info.stored_type << (info.is_scaled ? ", scaled on reading" : "")
      << ", ";
  if (info.chunk.empty())
    out << "in one piece";
  else
    out << "chunks of " << info.chunk.at(0) << "x" << info.chunk.at(1) << "x" << info.chunk.at(2)
        << " cells";
  out << ", codec " << (info.codec.empty() ? "none" : info.codec) << ": "
      << bytes_text(info.stored_bytes);
  if (bits > 0 && info.stored_bytes > 0)
    out << " for " << bytes_text(cells * bits / 8) << " of values, ratio "
        << apps::brief(static_cast<double>(cells * bits / 8) /
                       static_cast<double>(info.stored_bytes));
  out << "\n";
  if (!options.values) return out.str();
  data::ValueSummary values;
  try {
    values = summarise(*file);
  } catch (const Error& e) {  // what the header says may help to find out why
    out << "    values: cannot be read\n";
    problems.emplace_back(e.what());
    return out.str();
  }
  out << values_text(info, values);
  if (!options.picture.empty()) {
    draw(options.picture, *file, values);
    out << "    drawn to " << options.picture << "\n";
  }
  return out.str();
}

std::string bytes_text(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return (unit == 0 || value >= 100 ? apps::fixed(value, 0) : apps::brief(value)) + " " +
         units[unit];
}

data::ValueSummary summarise(const data::VolumeFile& file) {
  data::ValueSummary values;
  const data::VolumeInfo& info = file.info();
  data::each_slab({{0, 0, 0}, info.grid}, info.channels, [&](const data::Box& box) {
    values.add(file.read(box.begin, box.count, DType::f64));
  });
  return values;
}

std::string guess_kind(const data::VolumeInfo& info, const data::ValueSummary& v) {
  if (v.n() == 0) return {};
  const auto& distinct = v.distinct();
  if (distinct.size() == 1) return {};  // says nothing of what it is
  const std::string& unit = info.unit;
  const bool is_speed = unit == "m s-1" || unit == "m/s" || unit == "m s^-1";
  if (distinct.size() == 2 && distinct.contains(-1) && distinct.contains(1))
    return "a building mask: -1 building, 1 open";
  if (distinct.size() == 2 && distinct.contains(0) && distinct.contains(1))
    return "a mask, or labels of two classes: 0 and 1";
  if (is_speed || info.source.variable.find("wind") != std::string::npos)
    return std::string(v.min() >= 0 ? "a wind speed" : "a wind component") +
           (is_speed       ? " in m/s"
            : unit.empty() ? ""
                           : " in " + printable(unit) + ", not m/s");
  if (!distinct.empty() && v.are_whole() && v.min() >= 0)
    return detail::join(
        info.stored_type == "u8" && distinct.size() > kMostClasses ? "an image of 8 bits, or " : "",
        "labels of ", distinct.size(), " classes");
  if (v.are_whole() && v.min() >= -1100 && v.min() <= -900 && v.max() >= 1000)
    return "CT in Hounsfield units: -1000 air, 0 water";
  if (v.min() == 0 && v.percentile(25) == 0) return "an image on a background of 0";
  return {};
}

}  // namespace bora::unet3d
