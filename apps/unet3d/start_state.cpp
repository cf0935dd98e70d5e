// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/start_state.hpp"

#include <charconv>
#include <cmath>

#include "apps/train/parallel.hpp"
#include "apps/train/run_record.hpp"
#include "apps/train/setup.hpp"
#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/orientation_check.hpp"
#include "apps/unet3d/segmentation_cases.hpp"
#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/volume_statistics_text.hpp"
#include "core/build_info.hpp"
#include "data/checkpoint.hpp"
#include "data/output_place.hpp"
#include "nn/amp/grad_scaler.hpp"

namespace bora::unet3d {
namespace {

constexpr const char* kPrefix = "bora.";
constexpr const char* kParts[] = {"training", "validation", "test"};

template <class T>
std::string text_of(T value) {
  char buffer[64];  // the shortest text that reads back as the same value
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  BORA_CHECK(error == std::errc{}, "a number as text: wanted fewer than 64 characters");
  return {buffer, end};
}

/// The metadata of a file, by key without "bora.".
class Texts {
 public:
  explicit Texts(const data::SafetensorsReader& file) : file_(file) {}

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata().find(kPrefix + key);
    BORA_CHECK(found != file_.metadata().end(), file_.path(), ": __metadata__ has no key '",
               kPrefix, key, "'");
    return found->second;
  }
  bool has(const std::string& key) const { return file_.metadata().contains(kPrefix + key); }
  template <class T>
  T number(const std::string& key) const {
    const std::string& found = text(key);
    T value{};
    const char* last = found.data() + found.size();
    const auto [end, error] = std::from_chars(found.data(), last, value);
    BORA_CHECK(error == std::errc{} && end == last, file_.path(), ": __metadata__ '", kPrefix, key,
               "' is '", found, "', wanted a number");
    return value;
  }
  int64_t positive(const std::string& key) const {
    const auto value = number<int64_t>(key);
    BORA_CHECK(value > 0, file_.path(), ": __metadata__ '", kPrefix, key, "' is ", value,
               ", wanted more than 0");
    return value;
  }
  /// The statistics of the normalisation: finite, of one cell at least.
  data::Moments moments() const {
    const data::Moments m{positive("normalisation.n"), number<double>("normalisation.mean"),
                          number<double>("normalisation.m2")};
    BORA_CHECK(std::isfinite(m.mean) && std::isfinite(m.m2) && m.m2 >= 0, file_.path(),
               ": __metadata__ has statistics with mean ", m.mean, " and sum of squares ", m.m2,
               ", wanted finite numbers, the second not below 0");
    return m;
  }
  std::vector<std::string> lines(const std::string& key) const {
    const std::string& all = text(key);
    std::vector<std::string> out;
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = std::min(all.find('\n', begin), all.size());
      out.push_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
    return out;
  }

 private:
  const data::SafetensorsReader& file_;
};

std::vector<std::string>& part_of(StartState& state, const std::string& part) {
  return part == "training" ? state.training : part == "validation" ? state.validation : state.test;
}

/// What the weights belong to, key by key; a synchronised batch norm has the same ones as a plain.
std::vector<std::pair<std::string, std::string>> network_of(const StartState& s) {
  const ModelConfig& m = s.config.model;
  return {{"model.in_channels", text_of(s.in_channels)},
          {"model.out_channels", text_of(outputs_of(s.config))},
          {"model.base", text_of(m.base)},
          {"model.levels", text_of(m.levels)},
          {"model.norm", m.norm == "sync_batch" ? "batch" : m.norm},
          {"model.up", m.up},
          {"model.activation", m.activation},
          {"model.max_channels", text_of(m.max_channels)},
          {"normalisation.mode",
           s.images ? s.config.volumes.normalisation : data::name_of(s.normalisation)}};
}

/// The statistics of the file's images, made anew: another state keeps its own.
void adopt_images(StartState& s, const Texts& texts) {
  s.images = std::make_shared<data::VolumeNormaliser>(s.config.volumes);
  statistics_from_texts(*s.images, [&](const std::string& key) { return texts.text(key); });
}

}  // namespace

StartState start_state_of_checkpoint(const std::string& path) {
  data::CheckpointReader reader(path);
  return with_context("checkpoint " + path, [&] {
    BORA_CHECK(reader.has("config") && reader.has("model_input_channels"),
               "this is no checkpoint of unet3d: it holds no configuration");
    StartState s;
    s.source = path;
    config_load_text(s.config, reader.peek<std::string>("config"), path);
    s.in_channels = reader.peek<int64_t>("model_input_channels");
    const std::string norm = "normaliser.normalisation.";
    if (is_segmentation(s.config)) {
      s.images = std::make_shared<data::VolumeNormaliser>(s.config.volumes);
      const StateVisitor::Group group(reader, "normaliser");
      s.images->state(reader);
    } else {
      s.normalisation = data::norm_mode_from(reader.peek<std::string>(norm + "mode"));
      s.moments = {reader.peek<int64_t>(norm + "n"), reader.peek<double>(norm + "mean"),
                   reader.peek<double>(norm + "m2")};
    }
    for (const char* part : kParts)
      part_of(s, part) = reader.peek<std::vector<std::string>>(std::string("cases.") + part);
    s.total_updates = reader.peek<int64_t>("training.total_updates");
    s.world_size = reader.peek<int64_t>("training.world_size");
    s.updates = reader.peek<int64_t>("updates");
    s.orientation = trained_orientation(reader);
    if (s.images) reader.finish(data::Unread::allow);  // what is missing for their state
    return s;
  });
}

StartState start_state_of_settings(const std::string& path, Collective& ranks) {
  StartState s;
  s.source = path;
  config_load_file(s.config, path);
  train::check_parallel(s.config);
  check_task_keys(s.config);
  check_network(s.config);
  const bool classes = is_segmentation(s.config);
  if (classes ? s.config.volumes.root.empty() : s.config.data.root.empty())
    throw UsageError(path + ": " + (classes ? "volumes" : "data") +
                     ".root is not set; wanted the folder of the cases, from which the split and "
                     "the normalisation come");
  int64_t samples = 0;
  if (classes) {
    data::VolumesConfig volumes = s.config.volumes;
    volumes.cache.kind = "none";  // each case is read once
    SegmentationCases cases(volumes, s.config.split, ranks);
    cases.fit(ranks);
    s.in_channels = cases.all().n_channels();
    s.images = std::make_shared<data::VolumeNormaliser>(cases.all().normaliser());
    for (const char* part : kParts) part_of(s, part) = cases.names(part);
    s.orientation = cases.orientation();
    samples = cases.training().size();
  } else {
    Cases cases(s.config.data, s.config.split, ranks);
    cases.fit(ranks);
    s.in_channels = cases.n_channels();
    s.normalisation = cases.all().normaliser().mode();
    s.moments = cases.all().normaliser().moments();
    for (const char* part : kParts) part_of(s, part) = names_of(cases.part(part));
    samples = cases.training().size();
  }
  const apps::WindowPlan plan = train::window_plan(s.config, samples, ranks);
  plan.sampler().require_samples();
  s.total_updates = plan.updates_an_epoch() * s.config.train.epochs;
  s.world_size = ranks.size();
  return s;
}

data::TextMap metadata_of(const StartState& s) {
  data::TextMap texts{{"format", "pt"}};  // whose layouts: the word that other programs know
  const auto set = [&](const std::string& key, std::string text) {
    texts[kPrefix + key] = std::move(text);
  };
  for (auto& [key, text] : network_of(s)) set(key, text);
  set("written_by", build_info_text());
  set("config", train::settings_text(s.config));
  set("updates", text_of(s.updates));
  set("total_updates", text_of(s.total_updates));
  set("world_size", text_of(s.world_size));
  if (s.images) {
    statistics_to_texts(*s.images, kPrefix, texts);
  } else if (s.normalisation == data::NormMode::global) {
    set("normalisation.n", text_of(s.moments.n));
    set("normalisation.mean", text_of(s.moments.mean));
    set("normalisation.m2", text_of(s.moments.m2));
    set("normalisation.sigma", text_of(s.moments.scaling().sigma));
  }
  StartState copy = s;
  for (const char* part : kParts) {
    std::string lines;
    for (const std::string& name : part_of(copy, part)) lines += name + "\n";
    set(std::string("cases.") + part, lines);
  }
  if (!s.orientation.empty()) set(kOrientationEntry, s.orientation);
  return texts;
}

bool has_start_state(const data::SafetensorsReader& file) { return Texts(file).has("config"); }

StartState start_state_of_metadata(const data::SafetensorsReader& file) {
  const Texts texts(file);
  StartState s;
  s.source = file.path();
  config_load_text(s.config, texts.text("config"), file.path() + ", __metadata__ 'bora.config'");
  s.in_channels = texts.number<int64_t>("model.in_channels");
  if (is_segmentation(s.config)) {
    s.images = std::make_shared<data::VolumeNormaliser>(s.config.volumes);
    if (s.images->mode() == data::VolumeNorm::global) adopt_images(s, texts);
  } else {
    s.normalisation = data::norm_mode_from(texts.text("normalisation.mode"));
    if (s.normalisation == data::NormMode::global) s.moments = texts.moments();
  }
  for (const char* part : kParts) part_of(s, part) = texts.lines(std::string("cases.") + part);
  if (texts.has(kOrientationEntry)) s.orientation = texts.text(kOrientationEntry);
  s.total_updates = texts.positive("total_updates");
  s.world_size = texts.positive("world_size");
  s.updates = texts.number<int64_t>("updates");
  return s;
}

std::string adopt_statistics(StartState& state, const data::SafetensorsReader& file) {
  const Texts texts(file);
  std::string differences;
  for (const auto& [key, wanted] : network_of(state))
    if (texts.has(key) && texts.text(key) != wanted)
      differences += "\n  " + key + ": " + texts.text(key) + " in " + file.path() + ", " + wanted +
                     " in " + state.source;
  if (!differences.empty())
    throw UsageError("the weights belong to another network:" + differences);
  if (state.images) {
    if (state.images->mode() != data::VolumeNorm::global || !texts.has("normalisation.n"))
      return "";
    adopt_images(state, texts);
    return "the images are scaled by the statistics of " + file.path();
  }
  if (state.normalisation != data::NormMode::global || !texts.has("normalisation.n")) return "";
  const data::Moments own = texts.moments();
  BORA_CHECK(own.n > 0 && own.scaling().sigma > 0, file.path(), ": __metadata__ has statistics of ",
             own.n, " cells with sigma ", own.scaling().sigma,
             ", wanted at least one cell and a sigma above 0");
  const data::Scaling before = state.moments.scaling(), now = own.scaling();
  state.moments = own;
  if (before.mean == now.mean && before.sigma == now.sigma) return "";
  return bora::detail::join("the weights were trained with mean ", now.mean, " m/s, sigma ",
                            now.sigma, " m/s: these are kept instead of ", before.mean, " and ",
                            before.sigma, " of ", state.source);
}

void save_start(const std::string& path, const StartState& state, UNet3d& model,
                nn::ParameterArena& arena) {
  data::make_folder_of(path, "import: --output=" + path);
  const std::unique_ptr<nn::Optimizer> optimizer = train::make_optimizer(state.config.optim, arena);
  nn::GradScaler scaler(train::scale_rule_of(state.config.scaler));
  StartState s = state;
  // What Trainer::state visits, at the beginning.
  data::save_checkpoint(path, [&](StateVisitor& v) {
    const auto value = [&](const char* name, auto x) { v.value(name, x); };
    {
      const StateVisitor::Group group(v, "model");
      nn::module_state(model, v);
    }
    {
      const StateVisitor::Group outer(v, "normaliser");
      if (s.images) {
        s.images->state(v);
      } else {
        const StateVisitor::Group group(v, "normalisation");
        value("mode", data::name_of(s.normalisation));
        value("n", s.moments.n);
        value("mean", s.moments.mean);
        value("m2", s.moments.m2);
      }
    }
    {
      const StateVisitor::Group group(v, "cases");
      for (const char* part : kParts) v.value(part, part_of(s, part));
      if (!s.orientation.empty()) v.value("orientation", s.orientation);
    }
    value("config", train::settings_text(s.config));
    value("model_input_channels", s.in_channels);
    value("updates", int64_t{0});
    const StateVisitor::Group group(v, "training");
    {
      const StateVisitor::Group inner(v, "optimizer");
      optimizer->state(v);
    }
    scaler.state(v);
    train::RunRecord run{.total_updates = s.total_updates,
                         .world_size = s.world_size,
                         .schedule_total = s.total_updates,
                         .lr_ranks = s.config.optim.scale_lr == "linear" ? s.world_size : 1};
    run.state(v, data::DistributedSampler({.n_samples = static_cast<int64_t>(s.training.size()),
                                           .seed = s.config.train.seed}));
  });
}

}  // namespace bora::unet3d
