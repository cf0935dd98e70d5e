// SPDX-License-Identifier: Apache-2.0
#include "apps/train/report.hpp"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "core/error.hpp"
#include "data/atomic_file.hpp"

namespace bora::train {
namespace {

namespace fs = std::filesystem;

// The page stays under 2 MB: base64 adds a third.
constexpr size_t kPictureBytes = 1'200'000;

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  return std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &parts) > 0 ? text : "";
}

/// The latest row of each file, in the order in which the files were first named.
std::vector<ReportPicture> pictures_of(const RunLog& log, const std::string& folder) {
  std::vector<std::string> files;
  std::map<std::string, std::string> titles;
  for (const data::JsonRecord* row : log.of("figure")) {
    const std::string file = text_of(*row, "file");
    // A log from elsewhere shall not show other files of this machine.
    if (file.empty() || file.starts_with('/') || file.find("..") != std::string::npos) continue;
    if (!titles.contains(file)) files.push_back(file);
    titles[file] = text_of(*row, "title");
  }
  std::vector<ReportPicture> pictures;
  size_t bytes = 0;
  for (const std::string& file : files) {
    std::string png = read_file(folder + "/" + file).value_or("");
    if (!png.starts_with("\x89PNG") || bytes + png.size() > kPictureBytes) png.clear();
    bytes += png.size();
    pictures.push_back({titles[file], std::move(png)});
  }
  return pictures;
}

}  // namespace

void write_report(const std::string& folder) {
  const std::string log_path = folder + "/metrics.jsonl";
  BORA_CHECK(fs::is_regular_file(log_path), "write_report: there is no ", log_path,
             ": wanted the folder of a training run (output.dir)");
  const RunLog log = RunLog::read(log_path);
  fs::path absolute = fs::absolute(folder).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  const ReportInput input{.name = absolute.filename().string(),
                          .written = local_time(),
                          .settings = read_file(folder + "/config.toml").value_or(""),
                          .pictures = pictures_of(log, folder)};
  data::write_file_atomic(folder + "/" + kReportFile, report_html(log, input));
}

}  // namespace bora::train
