// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/part_statistics.hpp"

#include <cmath>
#include <mutex>

#include "apps/common/text.hpp"
#include "core/error.hpp"
#include "data/packed_text.hpp"
#include "data/volume_read.hpp"
#include "data/wind_cells.hpp"

namespace bora::unet3d {
namespace {

/// What the threads of this rank add to.  Counts and extremes only: their order does not matter.
struct Shared {
  std::mutex mutex;
  std::vector<data::ValueSummary> channels;
};

/// A case's own numbers, as text for the other ranks.
struct CaseRow {
  std::vector<data::Moments> moments;
  int64_t n_cells = 0, n_open = 0, n_ignored = 0;
  std::vector<int64_t> class_cells;

  std::string pack() const {
    data::TextPacker out;
    for (const int64_t n : {n_cells, n_open, n_ignored}) out.add(n);
    out.add(moments.size());
    for (const data::Moments& m : moments) {
      out.add(m.n);
      out.add(m.mean);
      out.add(m.m2);
    }
    for (const int64_t n : class_cells) out.add(n);
    return out.text();
  }
  static CaseRow unpack(const std::string& text) {
    data::TextUnpacker in(text, "statistics of the cases");
    CaseRow row;
    for (int64_t* n : {&row.n_cells, &row.n_open, &row.n_ignored}) *n = in.next_number<int64_t>();
    row.moments.resize(in.next_number());
    for (data::Moments& m : row.moments) {
      m.n = in.next_number<int64_t>();
      m.mean = in.next_double();
      m.m2 = in.next_double();
    }
    while (!in.done()) row.class_cells.push_back(in.next_number<int64_t>());
    return row;
  }
};

CaseRow look_at_wind(const data::WindDataset& wind, int64_t index, Shared& shared) {
  const Dims3 grid = wind.at(index).grid;
  const data::Sample s = wind.read_window(index, data::kept_window(wind.config(), grid));
  CaseRow row;
  row.moments = {wind.moments(index)};
  row.n_cells = s.region.numel();
  for (int64_t i = 0; i < row.n_cells; ++i)
    row.n_open += s.input.data<float>()[i * wind.n_channels()] > 0;
  data::ValueSummary own;
  own.add(s.target, s.region);
  const std::lock_guard lock(shared.mutex);
  shared.channels.at(0).merge(own);
  return row;
}

CaseRow look_at_volume(const data::VolumeDataset& volumes, int64_t index, Shared& shared) {
  const data::VolumeCase& c = volumes.at(index);
  const data::VolumesConfig& config = volumes.config();
  const auto n_channels = static_cast<size_t>(c.channels);
  std::vector<data::ValueSummary> own(n_channels);
  CaseRow row;
  data::each_slab(c.box, c.channels, [&](const data::Box& box) {
    const Tensor image = data::checked_image(
        data::read_field(c.image, c.image_stamp, box, c.image_type), c.image, box, config.missing);
    const int64_t cells = box.count.count();
    row.n_cells += cells;
    Tensor channel = Tensor::empty({cells}, DType::f32);
    for (size_t k = 0; k < n_channels; ++k) {
      Tensor region;
      float* v = channel.data<float>();
      for (int64_t i = 0; i < cells; ++i)
        v[i] = image.data<float>()[i * c.channels + static_cast<int64_t>(k)];
      if (config.normalise_cells == "nonzero") {
        region = Tensor::empty({cells}, DType::u8);
        for (int64_t i = 0; i < cells; ++i) region.data<uint8_t>()[i] = v[i] != 0;
      }
      own[k].add(channel, region);
    }
  });
  if (!c.label.path.empty()) {
    row.class_cells.assign(static_cast<size_t>(volumes.n_classes()), 0);
    data::each_slab(c.box, 1, [&](const data::Box& box) {
      const Tensor classes =
          data::checked_classes(data::read_field(c.label, c.label_stamp, box, c.label_type),
                                c.label, box, volumes.labels());
      for (int64_t i = 0; i < classes.numel(); ++i) {
        const uint8_t k = classes.data<uint8_t>()[i];
        if (k == data::kIgnoredClass)
          ++row.n_ignored;
        else
          ++row.class_cells.at(k);
      }
    });
  }
  for (const data::ValueSummary& channel : own) row.moments.push_back(channel.moments());
  const std::lock_guard lock(shared.mutex);
  for (size_t k = 0; k < n_channels; ++k) shared.channels.at(k).merge(own[k]);
  return row;
}

std::string numbers(double low, double high) {
  return "[" + apps::brief(low) + "," + apps::brief(high) + "]";
}

}  // namespace

PartStatistics part_statistics(const std::shared_ptr<const DataSet>& set,
                               const std::vector<int64_t>& indices, Collective& ranks,
                               const data::PreflightHooks& hooks) {
  BORA_CHECK(!indices.empty(), "part_statistics: no cases");
  const auto shared = std::make_shared<Shared>();
  shared->channels.resize(set->wind ? 1 : static_cast<size_t>(set->volumes->n_channels()));
  std::vector<data::PreflightItem> items;
  for (const int64_t i : indices) {
    data::PreflightItem item{set->all().name(i), {}};
    for (const auto& [role, path] : set->files(i)) item.files.push_back(path);
    items.push_back(std::move(item));
  }
  const auto look = [set, shared, indices](size_t k, data::PreflightDepth,
                                           std::vector<std::string>&) {
    const CaseRow row = set->wind ? look_at_wind(*set->wind, indices[k], *shared)
                                  : look_at_volume(*set->volumes, indices[k], *shared);
    return row.pack();
  };
  data::PreflightOptions options{.level = data::PreflightLevel::full, .what = "cases"};
  options.hooks.progress = hooks.progress;
  options.hooks.may_go_on = hooks.may_go_on;
  const data::PreflightReport report = data::preflight(items, look, options, &ranks);
  for (const auto& problems : report.problems)
    BORA_CHECK(problems.empty(), problems.empty() ? "" : problems[0]);

  PartStatistics out;
  out.seconds = report.seconds;
  out.channels = shared->channels;
  out.case_means.resize(out.channels.size());
  for (data::ValueSummary& channel : out.channels) channel.reduce(ranks);
  std::vector<data::Moments> moments(out.channels.size());
  for (const std::string& record : report.records) {
    const CaseRow row = CaseRow::unpack(record);
    out.n_cells += row.n_cells;
    out.n_open += row.n_open;
    out.n_ignored += row.n_ignored;
    out.class_cells.resize(std::max(out.class_cells.size(), row.class_cells.size()), 0);
    out.class_cases.resize(out.class_cells.size(), 0);
    for (size_t k = 0; k < row.class_cells.size(); ++k) {
      out.class_cells[k] += row.class_cells[k];
      out.class_cases[k] += row.class_cells[k] > 0;
    }
    for (size_t k = 0; k < moments.size(); ++k) {
      moments[k] = moments[k].merged(row.moments.at(k));
      if (row.moments[k].n > 0) out.case_means[k].push_back(row.moments[k].mean);
    }
  }
  for (size_t k = 0; k < moments.size(); ++k) out.channels[k].set_moments(moments[k]);
  return out;
}

std::vector<std::string> suggestions(const DataSet& set, const PartStatistics& s) {
  std::vector<std::string> lines;
  const std::string table = set.wind ? "data" : "volumes";
  const data::ValueSummary& v = s.channels.at(0);
  const double sigma = std::sqrt(v.moments().variance());
  if (v.n() == 0) return lines;
  // How far the cases' own means lie apart, in units of the spread of all values.
  double spread = 0;
  const std::vector<double>& means = s.case_means.at(0);
  for (const double m : means) spread += (m - v.moments().mean) * (m - v.moments().mean);
  spread = std::sqrt(spread / static_cast<double>(std::max<size_t>(1, means.size())));
  const bool alike = sigma > 0 && spread < 0.5 * sigma;
  const std::string apart =
      "the cases' means are " + apps::brief(sigma > 0 ? spread / sigma : 0) + " sigma apart";
  const double low = v.percentile(0.1), high = v.percentile(99.9);
  const bool has_tail = v.max() - high > high - v.percentile(50);
  if (set.wind) {
    lines.push_back("data.normalisation=global: mean " + apps::brief(v.moments().mean) +
                    ", sigma " + apps::brief(sigma) + " m/s; " + apart);
    lines.push_back(has_tail ? "data.clip=" + numbers(std::min(0.0, v.min()), high) +
                                   ": the largest 0.1 % reach from there to " + apps::brief(v.max())
                             : "data.clip: none needed, 99.9 % lie below " + apps::brief(high) +
                                   ", the largest is " + apps::brief(v.max()));
    return lines;
  }
  const double zeros = v.distinct().contains(0)
                           ? static_cast<double>(v.distinct().at(0)) / static_cast<double>(v.n())
                       : v.percentile(25) == 0 && v.min() == 0 ? 0.25
                                                               : 0;
  if (zeros >= 0.25 && set.volumes->config().normalise_cells == "all")
    lines.push_back(
        "volumes.normalise_cells=nonzero: at least 25 % of the cells are 0, background that would "
        "set mean and sigma");
  if (has_tail)
    lines.push_back("volumes.normalisation=percentile, volumes.percentiles=0.1,99.9 (" +
                    numbers(low, high) + "): the largest 0.1 % reach to " + apps::brief(v.max()));
  else
    lines.push_back((alike && means.size() > 1 ? "volumes.normalisation=global: "
                                               : "volumes.normalisation=zscore: ") +
                    (means.size() > 1 ? apart : std::string("one case says nothing about others")));
  if (s.class_cells.size() > 1) {
    int64_t labelled = 0;
    for (size_t k = 1; k < s.class_cells.size(); ++k) labelled += s.class_cells[k];
    const double share = static_cast<double>(labelled) /
                         static_cast<double>(std::max<int64_t>(1, labelled + s.class_cells[0]));
    if (share < 0.05)
      lines.push_back("volumes.foreground=0.5: only " + apps::brief(100 * share) +
                      " % of the cells are labelled, most random patches would have none");
  }
  return lines;
}

}  // namespace bora::unet3d
