// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>

#include "core/error.hpp"
#include "data/hdf5_scales.hpp"
#include "data/netcdf.hpp"
#include "data/permute.hpp"

namespace bora::data {

namespace {

/// Beside the target, and of nobody else: host, process and a count.
std::string temporary_name(const std::string& path) {
  static std::atomic<int64_t> count{0};
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return bora::detail::join(path, ".tmp-", host, "-", ::getpid(), "-", ++count);
}

}  // namespace

struct NetcdfWriter::Impl {
  struct Entry {
    std::string name;
    std::unique_ptr<hdf5::Dataset> dataset;
    std::vector<std::string> dimensions;
  };
  explicit Impl(const std::string& path)
      : target(path), temporary(temporary_name(path)), file(hdf5::File::create(temporary)) {}
  ~Impl() {
    if (committed) return;
    variables.clear();
    scales.clear();
    file = hdf5::File();
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
  }

  Entry* find(std::vector<Entry>& list, const std::string& name) {
    const auto it =
        std::find_if(list.begin(), list.end(), [&](const Entry& e) { return e.name == name; });
    return it == list.end() ? nullptr : &*it;
  }
  Entry& add_scale(const std::string& name, hdf5::Dataset dataset, bool bare) {
    hdf5::make_scale(dataset, name, static_cast<int>(scales.size()), bare);
    scales.push_back({name, std::make_unique<hdf5::Dataset>(std::move(dataset)), {name}});
    return scales.back();
  }
  void check_new(const std::string& name) {
    BORA_CHECK(!name.empty() && name.find('/') == std::string::npos, "'", target, "': name '", name,
               "', wanted one without '/'");
    BORA_CHECK(!find(scales, name) && !find(variables, name), "'", target, "': '", name,
               "' is written twice");
  }

  std::string target, temporary;
  bool committed = false;
  hdf5::File file;
  std::vector<Entry> scales, variables;
};

NetcdfWriter::NetcdfWriter(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
NetcdfWriter::~NetcdfWriter() = default;

hdf5::Dataset& NetcdfWriter::coordinate(const std::string& name, const Tensor& values) {
  impl_->check_new(name);
  BORA_CHECK(values.defined() && values.rank() == 1, "'", impl_->target, "': coordinate '", name,
             "' of shape ", values.shape(), ", wanted one axis");
  return *impl_->add_scale(name, impl_->file.write_dataset(name, values), false).dataset;
}

void NetcdfWriter::dimension(const std::string& name, int64_t size) {
  impl_->check_new(name);
  BORA_CHECK(size > 0, "'", impl_->target, "': dimension '", name, "' of ", size, " cells");
  impl_->add_scale(name, impl_->file.create_dataset(name, Shape{size}, DType::f32), true);
}

hdf5::Dataset& NetcdfWriter::variable(const std::string& name,
                                      const std::vector<std::string>& dimensions,
                                      const Tensor& values, const hdf5::Storage& storage) {
  impl_->check_new(name);
  BORA_CHECK(values.defined() && values.dtype() != DType::f16 && values.dtype() != DType::bf16, "'",
             impl_->target, "': variable '", name, "' of type ", values.dtype(),
             ", which NetCDF does not have");
  BORA_CHECK(static_cast<int>(dimensions.size()) == values.rank(), "'", impl_->target,
             "': variable '", name, "' of shape ", values.shape(), " with ", dimensions.size(),
             " dimensions");
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const auto* scale = impl_->find(impl_->scales, dimensions[i]);
    BORA_CHECK(scale, "'", impl_->target, "': variable '", name, "' on dimension '", dimensions[i],
               "', which was not made");
    BORA_CHECK(scale->dataset->extents()[0] == values.size(static_cast<int>(i)), "'", impl_->target,
               "': variable '", name, "' of shape ", values.shape(), ": dimension '", dimensions[i],
               "' has ", scale->dataset->extents()[0], " cells");
  }
  hdf5::Dataset d = impl_->file.write_dataset(name, values, storage);
  impl_->variables.push_back({name, std::make_unique<hdf5::Dataset>(std::move(d)), dimensions});
  return *impl_->variables.back().dataset;
}

hdf5::Group& NetcdfWriter::root() { return impl_->file; }

void NetcdfWriter::close() {
  hdf5::Lock lock;
  std::vector<hdf5::ScaledDataset> scaled;
  for (const auto& v : impl_->variables) {
    if (v.dimensions.empty()) continue;
    hdf5::ScaledDataset s{v.dataset.get(), {}};
    for (const std::string& name : v.dimensions)
      s.scales.push_back(impl_->find(impl_->scales, name)->dataset.get());
    scaled.push_back(s);
  }
  hdf5::attach_scales(scaled);
  impl_->variables.clear();
  impl_->scales.clear();
  impl_->file.close();
  // Renamed, but not synced as a checkpoint is: a prediction can be made again, and hundreds of
  // them must not wait for the disk one by one.
  std::error_code code;
  std::filesystem::rename(impl_->temporary, impl_->target, code);
  BORA_CHECK(!code, "renaming '", impl_->temporary, "' to '", impl_->target, "': ", code.message());
  impl_->committed = true;
}

namespace {

void copy_attributes(const hdf5::Object& from, hdf5::Object& to,
                     const std::vector<std::string>& skip) {
  static const std::vector<std::string> kOfTheFormat = {"CLASS",
                                                        "NAME",
                                                        "REFERENCE_LIST",
                                                        "DIMENSION_LIST",
                                                        "DIMENSION_LABELS",
                                                        "_Netcdf4Dimid",
                                                        "_Netcdf4Coordinates",
                                                        "_NCProperties",
                                                        "_nc3_strict"};
  const auto in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const std::string& name : from.attribute_names())
    if (!in(kOfTheFormat, name) && !in(skip, name)) from.copy_attribute(name, to);
}

}  // namespace

void write_netcdf_like(const std::string& path, const std::string& like,
                       const std::string& like_variable, const std::vector<std::string>& axes,
                       const std::string& variable, const Tensor& values,
                       const std::vector<std::pair<std::string, std::string>>& attributes) {
  hdf5::Lock lock;
  const NetcdfFile source = NetcdfFile::open(like);
  const VariableInfo info = source.info(like_variable);
  BORA_CHECK(values.defined() && (values.dtype() == DType::f32 || values.dtype() == DType::f64),
             "writing '", path, "': values of type ", values.dtype(), ", wanted f32 or f64");
  BORA_CHECK(static_cast<int>(axes.size()) == values.rank(), "writing '", path,
             "': values of shape ", values.shape(), " with ", axes.size(), " axes");
  std::vector<std::string> dimensions;  // in the order of the source
  std::vector<int> order;
  for (size_t i = 0; i < info.dimensions.size(); ++i) {
    const auto it = std::find(axes.begin(), axes.end(), info.dimensions[i]);
    if (it == axes.end()) continue;
    dimensions.push_back(*it);
    order.push_back(static_cast<int>(it - axes.begin()));
    BORA_CHECK(values.size(order.back()) == info.extents[i], "writing '", path, "': axis '", *it,
               "' has ", values.size(order.back()), " cells, ", info.extents[i], " in '", like,
               "'");
  }
  BORA_CHECK(dimensions.size() == axes.size(), "writing '", path, "': axes ",
             hdf5::detail::list_of(axes), ", but '", like_variable, "' of '", like, "' has ",
             hdf5::detail::list_of(info.dimensions));

  NetcdfWriter out(path);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const std::string& name = dimensions[i];
    if (source.axis(name).centres.empty()) {
      out.dimension(name, values.size(order[i]));
      continue;
    }
    const hdf5::Dataset from = source.hdf5().open_dataset(name);
    copy_attributes(from, out.coordinate(name, from.read()), {});
  }
  const Tensor turned = permute(values, order);
  hdf5::Storage storage;
  storage.deflate = 4;
  storage.shuffle = true;
  // About 1 MiB: windows are read without touching much else.
  for (int i = 0; i < turned.rank(); ++i)
    storage.chunk.push_back(std::max<int64_t>(1, std::min<int64_t>(64, turned.size(i))));
  hdf5::Dataset& to = out.variable(variable, dimensions, turned, storage);
  copy_attributes(source.hdf5().open_dataset(like_variable), to,
                  {"_FillValue", "missing_value", "scale_factor", "add_offset", "valid_min",
                   "valid_max", "valid_range", "_Unsigned", "least_significant_digit"});
  if (turned.dtype() == DType::f32)
    to.set_attribute("_FillValue", std::numeric_limits<float>::quiet_NaN());
  else
    to.set_attribute("_FillValue", std::numeric_limits<double>::quiet_NaN());
  copy_attributes(source.hdf5(), out.root(), {});
  for (const auto& [name, text] : attributes) out.root().set_attribute(name, text);
  out.close();
}

}  // namespace bora::data
