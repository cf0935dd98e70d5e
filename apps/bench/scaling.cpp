// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/scaling.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.hpp"

namespace bora::bench {
double percentile(std::vector<double> values, double p) {
  BORA_CHECK(!values.empty(), "a percentile of no values");
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

namespace {

class Reader {
 public:
  explicit Reader(const data::JsonRecord& record) : record_(record) {}
  double number(const char* key) const {
    const data::JsonValue::Variant& v = find(key);
    if (const auto* d = std::get_if<double>(&v)) return *d;
    if (const auto* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
    BORA_FAIL("key '", key, "' of a scaling row is not a number");
  }
  int64_t integer(const char* key) const { return static_cast<int64_t>(number(key)); }
  const std::string& text(const char* key) const {
    const auto* s = std::get_if<std::string>(&find(key));
    BORA_CHECK(s, "key '", key, "' of a scaling row is not a text");
    return *s;
  }
  bool truth(const char* key) const {
    const auto* b = std::get_if<bool>(&find(key));
    BORA_CHECK(b, "key '", key, "' of a scaling row is not true or false");
    return *b;
  }
  const std::vector<double>& list(const char* key) const {
    const auto* l = std::get_if<std::vector<double>>(&find(key));
    BORA_CHECK(l, "key '", key, "' of a scaling row is not a list of numbers");
    return *l;
  }

 private:
  const data::JsonValue::Variant& find(const char* key) const {
    for (const auto& [name, value] : record_)
      if (name == key) return value.get();
    BORA_FAIL("a scaling row without '", key,
              "': not written by bench_scaling, or by another "
              "version");
  }
  const data::JsonRecord& record_;
};

}  // namespace

double ScalingRow::median_ms() const { return percentile(step_ms, 0.5); }
double ScalingRow::spread_ms(double p) const { return percentile(step_ms, p); }
double ScalingRow::samples_per_s() const {
  return 1e3 * static_cast<double>(global_batch * accumulate) / median_ms();
}

std::string ScalingRow::setting() const {
  using detail::join;
  return join(network, " base ", base, ", ", size, ", ", precision, ", ", mode, ", ",
              mode == "weak" ? join("batch ", batch, " a rank") : join("batch ", global_batch),
              accumulate > 1 ? join(" x ", accumulate) : std::string(), ", ", threads,
              threads == 1 ? " thread" : " threads", data ? ", data from files" : "",
              all_reduce == "auto" ? std::string() : ", " + all_reduce,
              gradient_type == "f32" ? std::string() : join(", gradients in ", gradient_type),
              bucket_mib == 0 ? std::string() : join(", buckets of ", bucket_mib, " MiB"));
}

data::JsonRecord to_json(const ScalingRow& r) {
  std::vector<double> ready, bytes;
  for (const StepTimeline::Bucket& b : r.timeline.buckets) {
    ready.push_back(1e3 * b.ready_s);
    bytes.push_back(b.bytes);
  }
  return {{"kind", "scaling"},
          {"ranks", r.ranks},
          {"hosts", r.hosts},
          {"threads", r.threads},
          {"mode", r.mode},
          {"data", r.data},
          {"case", r.network},
          {"base", r.base},
          {"size", r.size},
          {"batch", r.batch},
          {"global_batch", r.global_batch},
          {"precision", r.precision},
          {"accumulate", r.accumulate},
          {"bucket_mib", r.bucket_mib},
          {"gradient_type", r.gradient_type},
          {"all_reduce", r.all_reduce},
          {"median_ms", r.median_ms()},
          {"samples_per_s", r.samples_per_s()},
          {"compute_ms", r.compute_ms},
          {"comm_ms", r.comm_ms},
          {"exposed_ms", r.exposed_ms},
          {"data_wait_ms", r.data_wait_ms},
          {"peak_mib", r.peak_mib},
          {"predicted_ms", r.predicted_ms},
          {"link_latency_us", 1e6 * r.link.latency_s},
          {"link_bytes_per_s", r.link.bytes_per_s},
          {"link_cpu_s_a_gb", 1e9 * r.link.cpu_s_a_byte},
          {"link_busy_rate", r.link.busy_rate},
          {"backward_end_ms", 1e3 * r.timeline.backward_end_s},
          {"timeline_ms", 1e3 * r.timeline.step_s},
          {"bucket_ready_ms", ready},
          {"bucket_bytes", bytes},
          {"step_ms", r.step_ms}};
}

ScalingRow scaling_row(const data::JsonRecord& record) {
  const Reader in(record);
  BORA_CHECK(in.text("kind") == "scaling", "a row of kind '", in.text("kind"),
             "', wanted 'scaling'");
  ScalingRow r;
  r.ranks = static_cast<int>(in.integer("ranks"));
  r.hosts = static_cast<int>(in.integer("hosts"));
  r.threads = static_cast<int>(in.integer("threads"));
  r.mode = in.text("mode");
  r.data = in.truth("data");
  r.network = in.text("case");
  r.base = in.integer("base");
  r.size = in.text("size");
  r.batch = in.integer("batch");
  r.global_batch = in.integer("global_batch");
  r.precision = in.text("precision");
  r.accumulate = in.integer("accumulate");
  r.bucket_mib = in.integer("bucket_mib");
  r.gradient_type = in.text("gradient_type");
  r.all_reduce = in.text("all_reduce");
  r.compute_ms = in.number("compute_ms");
  r.comm_ms = in.number("comm_ms");
  r.exposed_ms = in.number("exposed_ms");
  r.data_wait_ms = in.number("data_wait_ms");
  r.peak_mib = in.number("peak_mib");
  r.predicted_ms = in.number("predicted_ms");
  r.link = {1e-6 * in.number("link_latency_us"), in.number("link_bytes_per_s"),
            1e-9 * in.number("link_cpu_s_a_gb"), in.number("link_busy_rate")};
  r.timeline.backward_end_s = 1e-3 * in.number("backward_end_ms");
  r.timeline.step_s = 1e-3 * in.number("timeline_ms");
  const std::vector<double>&ready = in.list("bucket_ready_ms"), &bytes = in.list("bucket_bytes");
  BORA_CHECK(ready.size() == bytes.size(), "a scaling row with ", ready.size(), " times of ",
             bytes.size(), " buckets");
  for (size_t i = 0; i < ready.size(); ++i)
    r.timeline.buckets.push_back({1e-3 * ready[i], bytes[i]});
  r.step_ms = in.list("step_ms");
  BORA_CHECK(!r.step_ms.empty(), "a scaling row without steps");
  return r;
}

std::vector<StudyRow> study_of(const std::vector<ScalingRow>& jobs) {
  std::map<std::pair<std::string, int>, std::vector<const ScalingRow*>> groups;
  for (const ScalingRow& job : jobs) groups[{job.setting(), job.ranks}].push_back(&job);
  std::vector<StudyRow> rows;
  for (const auto& [key, members] : groups) {
    StudyRow row;
    // The job nearest to the median stands for what has no range of its own.
    std::vector<double> medians, exposed;
    for (const ScalingRow* m : members) {
      medians.push_back(m->median_ms());
      exposed.push_back(m->exposed_ms / m->median_ms());
    }
    row.step_ms = percentile(medians, 0.5);
    row.job = **std::min_element(
        members.begin(), members.end(), [&](const ScalingRow* a, const ScalingRow* b) {
          return std::abs(a->median_ms() - row.step_ms) < std::abs(b->median_ms() - row.step_ms);
        });
    row.repeats = static_cast<int>(members.size());
    row.low_ms = percentile(medians, 0);
    row.high_ms = percentile(medians, 1);
    row.exposed_share = percentile(exposed, 0.5);
    row.samples_per_s =
        1e3 * static_cast<double>(row.job.global_batch * row.job.accumulate) / row.step_ms;
    const auto one = groups.find({key.first, 1});
    if (one != groups.end()) {
      std::vector<double> base;
      for (const ScalingRow* m : one->second) base.push_back(m->median_ms());
      const double t1 = percentile(base, 0.5);
      row.efficiency = row.job.mode == "weak" ? weak_efficiency(t1, row.step_ms)
                                              : strong_efficiency(t1, row.step_ms, row.job.ranks);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace bora::bench
