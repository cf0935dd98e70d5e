// SPDX-License-Identifier: Apache-2.0
#include "data/output_place.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/error.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool ends_in(const std::string& name, const std::vector<std::string>& suffixes) {
  const std::string file = lower(fs::path(name).filename().string());
  return std::any_of(suffixes.begin(), suffixes.end(), [&](const std::string& s) {
    return file.size() > s.size() && file.ends_with(s);
  });
}

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw UsageError(what + ": " + why);
}

std::string parent_of(const std::string& file) {
  const fs::path parent = fs::path(file).parent_path();
  return parent.empty() ? "." : parent.string();
}

void refuse_folder(const std::string& file, const std::string& what) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) refuse(what, "'" + file + "' is a folder, wanted a file");
}

/// The errno of making a file there, or 0.  A file without a name tries it and leaves nothing;
/// file systems that have none are asked for the permission alone.
int why_unwritable(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
    return 0;
  }
  const int reason = errno;
  if (reason != EOPNOTSUPP && reason != EISDIR && reason != ENOENT && reason != EINVAL)
    return reason;
  return ::access(folder.c_str(), W_OK | X_OK) != 0 ? errno : 0;
}

}  // namespace

void check_folder(const std::string& folder, const std::string& what) {
  if (folder.empty()) refuse(what, "no folder is named");
  std::error_code code;
  // The nearest one that is there: the others would be made in it.
  fs::path at = fs::absolute(folder, code).lexically_normal();
  if (at.filename().empty()) at = at.parent_path();  // "a/"
  fs::file_status status = fs::status(at, code);
  while (status.type() == fs::file_type::not_found && at != at.parent_path()) {
    if (fs::symlink_status(at, code).type() == fs::file_type::symlink)
      refuse(what, "'" + at.string() + "' is a link to nothing, wanted a folder");
    at = at.parent_path();
    status = fs::status(at, code);
  }
  if (status.type() == fs::file_type::none || status.type() == fs::file_type::unknown)
    refuse(what, "'" + at.string() + "' cannot be looked at: " + code.message() +
                     "; wanted a folder that may be written to");
  if (status.type() != fs::file_type::directory)
    refuse(what, "'" + at.string() + "' is a file, wanted a folder");
  if (const int reason = why_unwritable(at); reason != 0)
    refuse(what, "the folder '" + at.string() + "' may not be written to (" +
                     std::generic_category().message(reason) + "); wanted one that may");
}

void make_folder(const std::string& folder, const std::string& what) {
  check_folder(folder, what);
  std::error_code code;
  fs::create_directories(folder, code);
  // Another rank may have made it meanwhile.
  std::error_code ignored;
  if (code && !fs::is_directory(folder, ignored))
    refuse(what, "the folder '" + folder + "' cannot be made: " + code.message());
}

void check_folder_of(const std::string& file, const std::string& what) {
  refuse_folder(file, what);
  check_folder(parent_of(file), what);
}

void make_folder_of(const std::string& file, const std::string& what) {
  refuse_folder(file, what);
  make_folder(parent_of(file), what);
}

void require_suffix(const std::string& file, const std::vector<std::string>& suffixes,
                    const std::string& what) {
  if (ends_in(file, suffixes)) return;
  std::string list;
  for (size_t i = 0; i < suffixes.size(); ++i)
    list += (i == 0 ? "" : i + 1 == suffixes.size() ? " or " : ", ") + suffixes[i];
  refuse(what, "wanted a file name in " + list);
}

bool has_file_suffix(const std::string& name) {
  return ends_in(name, {".nc",  ".nc4", ".cdf", ".h5",   ".hdf5", ".hdf",  ".he5", ".mat",
                        ".nii", ".gz",  ".hdr", ".img",  ".npy",  ".npz",  ".mha", ".nrrd",
                        ".tif", ".png", ".jpg", ".jpeg", ".tiff", ".json", ".csv", ".txt"});
}

}  // namespace bora::data
