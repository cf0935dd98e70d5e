// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>

#include "apps/common/help.hpp"
#include "apps/common/text.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "apps/unet3d/predict_inputs.hpp"
#include "core/counted.hpp"
#include "core/log.hpp"
#include "data/chunk_shape.hpp"
#include "data/convert.hpp"
#include "data/netcdf.hpp"
#include "data/netcdf_volume.hpp"
#include "data/output_place.hpp"
#include "data/volume_cases.hpp"
#include "data/wind_files.hpp"

namespace bora::unet3d {
namespace {

namespace fs = std::filesystem;

struct ConvertConfig : Config {
  std::string to;
  Dims3 patch{0, 0, 0};
  std::string codec = "auto";
  double storage_mb_s = 500;
  int64_t readers = 2;
  std::string existing = "refuse";
  bool verify = true;
  std::string orientation = "stored";
  std::string variable, order;
  static constexpr auto fields() {
    using C = ConvertConfig;
    return std::tuple_cat(
        std::tuple{
            field("to", &C::to, "folder for the new files; made if it is missing"),
            field("patch", &C::patch,
                  "cells along x, y, z that training will read at once; 0: volumes.patch or "
                  "data.shape, else 64",
                  at_least(0)),
            field("codec", &C::codec,
                  "auto: measured on the data; none, deflate1 to deflate9, each of these with "
                  "+shuffle"),
            field("storage_mb_s", &C::storage_mb_s,
                  "codec = auto: MB/s that the storage of the new files will give to one "
                  "process; slow storage wants small files",
                  positive),
            field("readers", &C::readers, "codec = auto: threads that will read at the same time",
                  between(1, 1024)),
            field("existing", &C::existing, "where an output is there already",
                  one_of("refuse", "skip", "replace")),
            field("verify", &C::verify, "read every new file back and compare all values"),
            field(
                "orientation", &C::orientation,
                "of the axes of volumes: as stored, or ras: x to the right, y to the front, z up, "
                "by the affine, with changes of order and mirrors alone",
                one_of("stored", "ras")),
            field("variable", &C::variable,
                  "the field of NetCDF and HDF5 files that are named one by one"),
            field("order", &C::order, "axes of arrays without names, of such files")},
        Config::fields());
  }
};

/// A file to write: fields into HDF5, or a NetCDF file of the wind schema again.
struct Job {
  std::string output;
  std::vector<data::ConvertField> fields;
  std::string wind_file, variable;

  data::VolumeSource first() const {
    return wind_file.empty() ? fields.front().source : data::VolumeSource{wind_file, variable, {}};
  }
};

std::vector<Job> jobs_of_files(const ConvertConfig& c, const std::vector<std::string>& files) {
  std::vector<Job> jobs;
  for (const std::string& file : files) {
    std::error_code ignored;
    if (fs::is_directory(file, ignored))
      throw UsageError("data convert: '" + file +
                       "' is a folder; a data set is named by --volumes.root or --data.root");
    std::string name = fs::path(file).filename().string();
    for (const char* end : {".gz", ".nii", ".hdr", ".img", ".nc", ".h5", ".hdf5", ".npy"})
      if (name.size() > std::string(end).size() && name.ends_with(end))
        name.resize(name.size() - std::string(end).size());
    jobs.push_back({c.to + "/" + name + ".h5", {{"raw", {file, c.variable, c.order}}}, {}, {}});
  }
  return jobs;
}

std::vector<Job> jobs_of_volumes(const ConvertConfig& c, Collective& ranks) {
  std::vector<Job> jobs;
  std::set<std::string> images;
  for (const data::VolumeCase& v : data::find_volume_cases(c.volumes, &ranks).cases) {
    // Several cases may be boxes of one volume: the files are converted, not the boxes.
    if (!images.insert(v.image.path).second)
      throw UsageError("data convert: '" + v.image.path +
                       "' is the image of several cases (boxes); name its files one by one");
    Job job{c.to + "/" + v.name + ".h5", {{"raw", v.image}}, {}, {}};
    if (!v.label.path.empty()) job.fields.push_back({"label", v.label});
    if (!v.weight.path.empty()) job.fields.push_back({"weight", v.weight});
    jobs.push_back(job);
  }
  return jobs;
}

/// Throws UsageError for a case in one HDF5 file, or one whose axes the file does not name: what is
/// written is the NetCDF schema.
void require_netcdf(const data::WindFilesConfig& f, const data::WindCase& w) {
  const std::vector<std::string> axes =
      data::NetcdfFile::open(w.mask_path).info(f.mask_variable).dimensions;
  if (w.wind_path != w.mask_path && data::is_netcdf4(w.mask_path) &&
      std::find(axes.begin(), axes.end(), "") == axes.end())
    return;
  throw UsageError("data convert: '" + w.mask_path +
                   "' is an HDF5 file of a wind case; wind cases are written as NetCDF-4 (.nc), "
                   "from NetCDF-4 alone. Single fields are written as .h5: unet3d data convert '" +
                   w.mask_path + "' --variable=" + f.mask_variable + " --to=FOLDER");
}

std::vector<Job> jobs_of_wind(const ConvertConfig& c, Collective& ranks) {
  std::vector<Job> jobs;
  const data::WindFilesConfig& f = c.data.files;
  for (const data::WindCase& w : data::find_wind_files(c.data, &ranks).cases) {
    require_netcdf(f, w);
    const auto add = [&](const std::string& path, const std::string& folder,
                         const std::string& variable) {
      if (path.empty()) return;
      const std::string name = fs::path(path).filename().string();
      jobs.push_back({(fs::path(c.to) / folder / name).string(), {}, path, variable});
    };
    add(w.wind_path, f.wind_folder, f.wind_variable);
    add(w.mask_path, f.mask_folder, f.mask_variable);
  }
  return jobs;
}

/// Before anything is read: --to is a folder, what lies there has its names from its sources.
void check_to(const std::string& to) {
  const std::string what = "data convert: --to=" + to;
  std::error_code ignored;
  if (data::has_file_suffix(to) && !fs::is_directory(to, ignored))
    throw UsageError(what +
                     ": wanted a folder; files there are named by their cases, in .h5 (HDF5), of "
                     "wind cases in .nc (NetCDF-4): no other format is written");
  data::check_folder(to, what);
}

void check_outputs(const std::vector<Job>& jobs) {
  std::set<std::string> outputs;
  for (const Job& job : jobs) {
    if (!outputs.insert(fs::weakly_canonical(job.output).string()).second)
      throw UsageError("data convert: two inputs would be written to '" + job.output + "'");
    std::error_code ignored;
    const auto same = [&](const std::string& input) {
      return fs::equivalent(job.output, input, ignored);
    };
    bool overwrites = !job.wind_file.empty() && same(job.wind_file);
    for (const data::ConvertField& field : job.fields)
      overwrites = overwrites || same(field.source.path);
    if (overwrites)
      throw UsageError("data convert: '" + job.output +
                       "' is one of the inputs; choose another --to");
    if (fs::is_directory(job.output, ignored))
      throw UsageError("data convert: '" + job.output + "' is a folder, wanted to write a file");
  }
}

/// Drops what is there already, or refuses; the same on all ranks, who see the same folder.
std::vector<Job> without_existing_jobs(std::vector<Job> jobs, Existing existing,
                                       Collective& ranks) {
  std::string there;  // rank 0's view, as "1" or "0" for each
  ranks.agree("looking for earlier files", [&] {
    if (ranks.rank() != 0) return;
    for (const Job& job : jobs) {
      there += fs::exists(job.output) ? '1' : '0';
      if (there.back() == '1' && existing == Existing::refuse)
        throw UsageError("data convert: '" + job.output +
                         "' exists; --existing=replace replaces, --existing=skip leaves such out");
    }
  });
  there = ranks.broadcast_text(there, 0, "earlier files");
  std::vector<Job> left;
  for (size_t i = 0; i < jobs.size(); ++i)
    if (existing == Existing::replace || there.at(i) == '0') left.push_back(std::move(jobs[i]));
  return left;
}

void print_codecs(const std::vector<data::CodecFigures>& figures, size_t best, double storage,
                  int64_t readers) {
  std::printf(
      "codec              smaller by  MB/s written  ms a patch (memory)  MB a patch  "
      "ms a patch (storage)\n");
  for (size_t i = 0; i < figures.size(); ++i) {
    const data::CodecFigures& f = figures[i];
    std::printf("%-18s %9.2fx  %12.0f  %19.2f  %10.2f  %20.2f%s\n", f.codec.text().c_str(),
                f.size_ratio, f.write_mb_per_s, f.patch_ms, 1e-6 * f.patch_bytes,
                f.patch_ms_from(storage), i == best ? "  <- chosen" : "");
  }
  std::printf(
      "chosen: %s, the least time of a patch with %ld readers and storage of %.0f MB/s "
      "(--storage_mb_s); of those within 5 %% the smallest\n",
      figures[best].codec.text().c_str(), static_cast<long>(readers), 1e-6 * storage);
  std::fflush(stdout);
}

data::Codec codec_for(const ConvertConfig& c, const Job& job, const data::ConvertOptions& options,
                      Collective& ranks) {
  if (c.codec != "auto") return data::Codec::from(c.codec);
  std::string chosen;
  ranks.agree("measuring codecs", [&] {
    if (ranks.rank() != 0) return;
    const auto figures = data::measure_codecs(job.first(), options, c.to);
    const double storage = 1e6 * c.storage_mb_s;
    const size_t best = data::best_codec(figures, storage);
    std::printf("measured on the middle of %s:\n", job.first().path.c_str());
    print_codecs(figures, best, storage, c.readers);
    chosen = figures[best].codec.text();
  });
  return data::Codec::from(ranks.broadcast_text(chosen, 0, "codec"));
}

Dims3 patch_of(const ConvertConfig& c, bool is_wind, bool is_files) {
  Dims3 patch = c.patch;
  if (patch == Dims3{} && is_files) return Dims3::all(64);
  if (patch == Dims3{}) patch = is_wind ? c.data.shape : c.volumes.patch;
  return patch;
}

}  // namespace

int data_convert_command(MpiSession& session, const std::vector<std::string>& args) {
  ConvertConfig c;
  const ConfigArgs given = config_parse_args(
      c, "unet3d data convert", args,
      {.about = "Writes a data set again in chunks that random patches are read from fast: the "
                "files that are named (.h5 with raw), --volumes.root's cases (.h5 with raw, label, "
                "weight), or --data.root's wind cases (NetCDF-4 of the same schema).",
       .positionals = "[FILE...]"});
  if (apps::print_help(session, given)) return 0;
  const bool is_files = !given.positionals.empty();
  const bool is_wind = !is_files && !is_segmentation(c) && c.volumes.root.empty();
  if (c.to.empty()) throw UsageError("data convert: where to? --to=FOLDER is not set");
  if (!is_files && c.volumes.root.empty() && c.data.root.empty())
    throw UsageError(
        "data convert: no files named, and neither --volumes.root nor --data.root is set");
  check_to(c.to);
  if (c.codec != "auto") data::Codec::from(c.codec);
  if (is_wind && c.orientation != "stored")
    throw UsageError("data convert: --orientation=" + c.orientation +
                     " is for volumes; wind files keep their axes");
  std::string settings = config_text(c);
  for (const std::string& path : given.positionals) settings += "\n" + path;
  const std::unique_ptr<Collective> ranks = open_ranks(session, c, settings);

  std::vector<Job> jobs = is_files  ? jobs_of_files(c, given.positionals)
                          : is_wind ? jobs_of_wind(c, *ranks)
                                    : jobs_of_volumes(c, *ranks);
  ranks->agree("looking at the outputs", [&] {
    check_outputs(jobs);
    for (const Job& job : jobs) data::make_folder_of(job.output, "data convert: --to=" + c.to);
  });
  const size_t n_found = jobs.size();
  jobs = without_existing_jobs(std::move(jobs), existing_from(c.existing), *ranks);
  if (session.rank() == 0 && jobs.size() < n_found)
    log_info(n_found - jobs.size(), " of ", n_found, " files are there already");
  if (jobs.empty()) return 0;
  data::ConvertOptions options{.patch = patch_of(c, is_wind, is_files),
                               .threads = static_cast<int>(c.readers),
                               .codec = {},
                               .verify = c.verify,
                               .to_ras = c.orientation == "ras"};
  options.codec = codec_for(c, jobs.front(), options, *ranks);

  int64_t before = 0, after = 0;
  ranks->agree("converting", [&] {
    for (size_t i = static_cast<size_t>(ranks->rank()); i < jobs.size();
         i += static_cast<size_t>(ranks->size())) {
      const Job& job = jobs[i];
      const data::Converted done =
          job.wind_file.empty()
              ? data::convert_to_hdf5(job.output, job.fields, options)
              : data::convert_netcdf(job.wind_file, job.variable, job.output, options);
      before += done.bytes_before;
      after += done.bytes_after;
      // Hundreds of files need no line each.
      log_at(jobs.size() <= 20 ? LogLevel::info : LogLevel::debug, "converted: ", job.output,
             " (chunks of ", done.chunk, ", ", options.codec.text(), ", ",
             apps::brief(1e-6 * static_cast<double>(done.bytes_after)), " MB)");
    }
  });
  before = ranks->all_reduce(before, ReduceOp::sum, "bytes before");
  after = ranks->all_reduce(after, ReduceOp::sum, "bytes after");
  if (session.rank() == 0)
    std::printf("%s, %.2f MB as stored before, %.2f MB now%s\n",
                counted(std::ssize(jobs), "file").c_str(), 1e-6 * static_cast<double>(before),
                1e-6 * static_cast<double>(after),
                c.verify ? ", all values read back and compared" : "");
  return 0;
}

}  // namespace bora::unet3d
