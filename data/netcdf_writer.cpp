// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "data/atomic_file.hpp"
#include "data/hdf5_scales.hpp"
#include "data/netcdf.hpp"

namespace bora::data {

struct NetcdfWriter::Impl {
  struct Entry {
    std::string name;
    std::unique_ptr<hdf5::Dataset> dataset;
    std::vector<std::string> dimensions;
  };
  explicit Impl(const std::string& path)
      : target(path), temporary(temporary_beside(path)), file(hdf5::File::create(temporary)) {}
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

hdf5::Dataset& NetcdfWriter::declare(const std::string& name,
                                     const std::vector<std::string>& dimensions, const Shape& shape,
                                     DType type, const hdf5::Storage& storage) {
  impl_->check_new(name);
  BORA_CHECK(type != DType::f16 && type != DType::bf16, "'", impl_->target, "': variable '", name,
             "' of type ", type, ", which NetCDF does not have");
  BORA_CHECK(static_cast<int>(dimensions.size()) == shape.rank(), "'", impl_->target,
             "': variable '", name, "' of shape ", shape, " with ", dimensions.size(),
             " dimensions");
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const auto* scale = impl_->find(impl_->scales, dimensions[i]);
    BORA_CHECK(scale, "'", impl_->target, "': variable '", name, "' on dimension '", dimensions[i],
               "', which was not made");
    BORA_CHECK(scale->dataset->extents()[0] == shape[static_cast<int>(i)], "'", impl_->target,
               "': variable '", name, "' of shape ", shape, ": dimension '", dimensions[i],
               "' has ", scale->dataset->extents()[0], " cells");
  }
  hdf5::Dataset d = impl_->file.create_dataset(name, shape, type, storage);
  impl_->variables.push_back({name, std::make_unique<hdf5::Dataset>(std::move(d)), dimensions});
  return *impl_->variables.back().dataset;
}

hdf5::Dataset& NetcdfWriter::variable(const std::string& name,
                                      const std::vector<std::string>& dimensions,
                                      const Tensor& values, const hdf5::Storage& storage) {
  BORA_CHECK(values.defined(), "'", impl_->target, "': variable '", name, "' without values");
  hdf5::Dataset& d = declare(name, dimensions, values.shape(), values.dtype(), storage);
  d.write(values);
  return d;
}

hdf5::Group& NetcdfWriter::root() { return impl_->file; }

void NetcdfWriter::check_written() const {
  with_context("writing '" + impl_->target + "'", [&] { impl_->file.check_written(); });
}

void NetcdfWriter::close() {
  hdf5::Lock lock;
  check_written();
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
  with_context("writing '" + impl_->target + "'", [&] { impl_->file.close(); });
  // Renamed, but not synced as a checkpoint is: a prediction can be made again, and hundreds of
  // them must not wait for the disk one by one.
  std::error_code code;
  std::filesystem::rename(impl_->temporary, impl_->target, code);
  BORA_CHECK(!code, "renaming '", impl_->temporary, "' to '", impl_->target, "': ", code.message());
  impl_->committed = true;
}

}  // namespace bora::data
