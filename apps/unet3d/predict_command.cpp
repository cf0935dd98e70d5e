// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>

#include "apps/common/help.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/field_run.hpp"
#include "apps/unet3d/predictor.hpp"
#include "core/log.hpp"
#include "data/output_place.hpp"

namespace bora::unet3d {
namespace {

void check(const PredictConfig& c, const std::vector<std::string>& paths) {
  check_field_config(c, "predict");
  if (!c.picture.empty()) {
    const std::string picture = "predict: --picture=" + c.picture;
    data::require_suffix(c.picture, {".png"}, picture);
    data::check_folder_of(c.picture, picture);
  }
  if (paths.empty())
    throw UsageError(
        "predict: of what? Give building masks or images, or folders of them, behind the options");
}

/// Before anything is predicted: a file that `names` can write, or a folder.
void check_output(const std::string& output, const PredictNames& names) {
  const std::string what = "predict: --output=" + output;
  if (names.is_file(output)) {
    data::check_folder_of(output, what);
  } else {
    std::error_code ignored;
    if (data::has_file_suffix(output) && !std::filesystem::is_directory(output, ignored))
      throw UsageError(what + ": wanted a file name in " + names.suffixes + ", or a folder");
    data::check_folder(output, what);
  }
}

/// Adds "input i: what is said of it" to a text for the other ranks.
void note(std::string& notes, size_t i, const std::string& said) {
  notes += std::to_string(i) + ' ' + said + '\0';
}

/// All ranks' notes, by input.  Collective.
void gather_notes(const std::string& mine, std::vector<std::string>& said, Collective& ranks) {
  for (const std::string& text : ranks.all_gather_text(mine, "inputs"))
    for (size_t at = 0; at < text.size();) {
      const size_t space = text.find(' ', at), end = text.find('\0', at);
      said.at(std::stoul(text.substr(at, space - at))) = text.substr(space + 1, end - space - 1);
      at = end + 1;
    }
}

/// Runs `body`; what goes wrong names the input, also where it was found deep in a library.
void with_name_of(const std::string& file, const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    if (std::string_view(e.what()).find(file) != std::string_view::npos) throw;
    throw Error("'" + file + "': " + e.what());
  }
}

struct Looks {
  std::vector<std::string> bad;   ///< what is wrong with each input
  std::vector<std::string> seen;  ///< what Predictor::look_into gave for each
};

/// Looks into all inputs, shared among the ranks.
Looks look_into(const Predictor& predictor, const std::vector<PredictInput>& inputs,
                Collective& ranks) {
  std::string wrong, seen;
  ranks.agree("looking into the inputs", [&] {
    for (size_t i = static_cast<size_t>(ranks.rank()); i < inputs.size();
         i += static_cast<size_t>(ranks.size())) {
      try {
        with_name_of(inputs[i].file, [&] { note(seen, i, predictor.look_into(inputs[i].file)); });
      } catch (const UsageError&) {
        throw;  // no fault of the file's
      } catch (const Error& e) {
        note(wrong, i, e.what());
      }
    }
  });
  Looks all{std::vector<std::string>(inputs.size()), std::vector<std::string>(inputs.size())};
  gather_notes(wrong, all.bad, ranks);
  gather_notes(seen, all.seen, ranks);
  return all;
}

constexpr size_t kListed = 20;  // lines of a message; a broken copy has hundreds

std::string listed(const std::vector<std::string>& problems, const std::string& what) {
  size_t n = 0;
  std::string text;
  for (const std::string& p : problems)
    if (!p.empty() && n++ < kListed) text += "\n  " + p;
  if (n > kListed) text += "\n  and " + std::to_string(n - kListed) + " more";
  return detail::join(n, " of ", problems.size(), " ", what, problems.size() == 1 ? "" : "s", text);
}

bool any(const std::vector<std::string>& problems) {
  return std::any_of(problems.begin(), problems.end(), [](const auto& p) { return !p.empty(); });
}

/// Predicts what is good; returns what became of each input, on all ranks.
std::vector<std::string> predict_all(const PredictConfig& config, Predictor& predictor,
                                     const std::vector<PredictInput>& inputs,
                                     std::vector<std::string> bad, Collective& ranks) {
  const bool skip = config.on_bad_files == "skip";
  std::string mine;
  work_apart(ranks, "predicting", [&](Pulse& pulse) {
    size_t place = 0;  // among the good ones
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!bad[i].empty() ||
          place++ % static_cast<size_t>(ranks.size()) != static_cast<size_t>(ranks.rank()))
        continue;
      try {
        data::make_folder_of(inputs[i].output, "predict: --output=" + config.output);
        with_name_of(inputs[i].file, [&] { predictor.predict(inputs[i], pulse); });
      } catch (const UsageError&) {
        throw;
      } catch (const Error& e) {
        if (!skip) throw;
        log_warn("left out: ", e.what());
        note(mine, i, e.what());
      }
    }
  });
  gather_notes(mine, bad, ranks);
  return bad;
}

}  // namespace

int predict_command(MpiSession& session, const std::vector<std::string>& args) {
  PredictConfig config;
  const ConfigArgs given =
      config_parse_args(config, "unet3d predict", args,
                        {.about = "Predicts wind fields from building masks, as NetCDF on the "
                                  "masks' grids; or, with a network for classes, labels of the "
                                  "cells of images, in the images' own format.",
                         .positionals = "FILE|FOLDER ..."});
  if (apps::print_help(session, given)) return 0;
  check(config, given.positionals);
  std::string settings = config_text(config);
  for (const std::string& path : given.positionals) settings += "\n" + path;
  auto [ranks, trained] = start_field_run(session, config, settings);
  // Refuses before anything is read.
  const std::unique_ptr<Predictor> predictor = is_segmentation(trained.config)
                                                   ? make_segmentation_predictor(config, trained)
                                                   : make_wind_predictor(config, trained);
  const PredictNames names = predictor->names();
  check_output(config.output, names);
  std::vector<PredictInput> inputs =
      find_predict_inputs(given.positionals, config.output, names, {config.truth}, *ranks);
  predictor->check_fit(inputs.size());
  const size_t n_found = inputs.size();
  inputs = without_existing(std::move(inputs), existing_from(config.existing), *ranks);
  if (session.rank() == 0 && inputs.size() < n_found)
    log_info(n_found - inputs.size(), " of ", n_found, " ", names.what,
             "s have a prediction already");
  const auto [bad, seen] = look_into(*predictor, inputs, *ranks);
  if (any(bad)) {
    const std::string text = listed(bad, names.what);
    BORA_CHECK(
        config.on_bad_files == "skip", "predict: nothing was predicted, for ", text,
        inputs.size() > 1 ? "\n(--on_bad_files=skip leaves such " + names.what + "s out)" : "");
    if (session.rank() == 0) log_warn("left out: ", text);
  }
  if (session.rank() == 0) predictor->tell_of(inputs, seen);
  const std::vector<std::string> failed = predict_all(config, *predictor, inputs, bad, *ranks);
  BORA_CHECK(!any(failed), "predict: no prediction for ", listed(failed, names.what));
  return 0;
}

}  // namespace bora::unet3d
