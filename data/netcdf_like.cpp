// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/error.hpp"
#include "data/netcdf.hpp"
#include "data/permute.hpp"

namespace bora::data {
namespace {

constexpr int64_t kLargestChunkBytes = int64_t{64} << 20;

void copy_attributes(const hdf5::Object& from, hdf5::Object& to,
                     const std::vector<std::string>& skip) {
  constexpr std::array<std::string_view, 9> kOfTheFormat = {"CLASS",
                                                            "NAME",
                                                            "REFERENCE_LIST",
                                                            "DIMENSION_LIST",
                                                            "DIMENSION_LABELS",
                                                            "_Netcdf4Dimid",
                                                            "_Netcdf4Coordinates",
                                                            "_NCProperties",
                                                            "_nc3_strict"};
  const auto in = [](const auto& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const std::string& name : from.attribute_names())
    if (!in(kOfTheFormat, name) && !in(skip, name)) from.copy_attribute(name, to);
}

/// The storage of `like` for elements of another size, in chunks that memory has room for.
hdf5::Storage storage_like(const hdf5::Dataset& like, const Shape& shape,
                           const std::vector<size_t>& places, int64_t element_bytes) {
  const hdf5::Storage source = like.storage();
  hdf5::Storage storage = source;
  storage.chunk.clear();
  if (source.chunk.empty()) return storage;
  int64_t bytes = element_bytes;
  for (size_t i = 0; i < places.size(); ++i) {
    storage.chunk.push_back(std::min(source.chunk[places[i]], shape[static_cast<int>(i)]));
    bytes *= storage.chunk.back();
  }
  while (bytes > kLargestChunkBytes) {
    int64_t& longest = *std::max_element(storage.chunk.begin(), storage.chunk.end());
    bytes = bytes / longest * ((longest + 1) / 2);
    longest = (longest + 1) / 2;
  }
  return storage;
}

}  // namespace

struct NetcdfLikeWriter::Impl {
  NetcdfWriter out;
  std::string path;
  Shape grid;  // in the order of the slabs
  DType type;
  std::vector<int> order;  // of the slabs' axes, as the file has them
  hdf5::Dataset* variable = nullptr;
  int64_t at_once = 1;  // planes of a row of chunks
  Tensor pending;       // (at_once, ...) of the slabs' shape
  int64_t n_pending = 0, n_written = 0;

  explicit Impl(const std::string& path_) : out(path_), path(path_) {}

  /// Writes planes (n, ...) behind those written before.
  void write(const Tensor& planes) {
    std::vector<int64_t> begin(order.size(), 0);
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i] == 0) begin[i] = n_written;
    variable->write(begin, permute(planes, order));
    n_written += planes.size(0);
    out.check_written();
  }
};

NetcdfLikeWriter::NetcdfLikeWriter(const std::string& path, const NetcdfLike& like) {
  hdf5::Lock lock;
  const NetcdfFile source = NetcdfFile::open(like.file, like.unnamed);
  const VariableInfo info = source.info(like.variable);
  const std::vector<std::string>& axes = like.axes;
  const DType type = like.type;
  BORA_CHECK(type == DType::f32 || type == DType::f64, "writing '", path, "': values of type ",
             type, ", wanted f32 or f64");
  BORA_CHECK(!axes.empty(), "writing '", path, "': no axes");
  std::vector<std::string> dimensions;  // in the order of the source
  std::vector<size_t> places;           // there
  std::vector<int> order;
  std::vector<int64_t> extents(axes.size(), 0);
  Shape shape;
  for (size_t i = 0; i < info.dimensions.size(); ++i) {
    const auto it = std::find(axes.begin(), axes.end(), info.dimensions[i]);
    if (it == axes.end()) continue;
    dimensions.push_back(*it);
    places.push_back(i);
    order.push_back(static_cast<int>(it - axes.begin()));
    extents[static_cast<size_t>(order.back())] = info.extents[i];
    shape = shape.append(info.extents[i]);
  }
  BORA_CHECK(dimensions.size() == axes.size(), "writing '", path, "': axes ",
             hdf5::detail::list_of(axes), ", but '", like.variable, "' of '", like.file, "' has ",
             hdf5::detail::list_of(info.dimensions));

  impl_ = std::make_unique<Impl>(path);
  impl_->type = type;
  impl_->order = order;
  for (const int64_t extent : extents) impl_->grid = impl_->grid.append(extent);
  NetcdfWriter& out = impl_->out;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const std::string& name = dimensions[i];
    if (source.axis(name, shape[static_cast<int>(i)]).centres.empty()) {
      out.dimension(name, shape[static_cast<int>(i)]);
      continue;
    }
    const hdf5::Dataset from = source.hdf5().open_dataset(name);
    copy_attributes(from, out.coordinate(name, from.read()), {});
  }
  const hdf5::Dataset from = source.hdf5().open_dataset(like.variable);
  const hdf5::Storage storage = storage_like(from, shape, places, size_of(type));
  hdf5::Dataset& to = out.declare(like.name, dimensions, shape, type, storage);
  impl_->variable = &to;
  for (size_t i = 0; i < storage.chunk.size(); ++i)
    if (order[i] == 0) impl_->at_once = storage.chunk[i];
  if (like.variable_attributes.empty())
    copy_attributes(from, to,
                    {"_FillValue", "missing_value", "scale_factor", "add_offset", "valid_min",
                     "valid_max", "valid_range", "_Unsigned", "least_significant_digit"});
  for (const auto& [name, text] : like.variable_attributes) to.set_attribute(name, text);
  if (type == DType::f32)
    to.set_attribute("_FillValue", std::numeric_limits<float>::quiet_NaN());
  else
    to.set_attribute("_FillValue", std::numeric_limits<double>::quiet_NaN());
  copy_attributes(source.hdf5(), out.root(), {});
  for (const auto& [name, text] : like.attributes) out.root().set_attribute(name, text);
}

NetcdfLikeWriter::~NetcdfLikeWriter() = default;

const Shape& NetcdfLikeWriter::shape() const { return impl_->grid; }

void NetcdfLikeWriter::write(const Tensor& slab) {
  Impl& w = *impl_;
  BORA_CHECK(slab.defined() && slab.dtype() == w.type && slab.rank() == w.grid.rank(), "writing '",
             w.path, "': a slab that is not ", w.type, " of ", w.grid.rank(), " axes");
  for (int i = 1; i < slab.rank(); ++i)
    BORA_CHECK(slab.size(i) == w.grid[i], "writing '", w.path, "': a slab of shape ", slab.shape(),
               " for a grid of ", w.grid);
  const int64_t n = slab.size(0);
  BORA_CHECK(w.n_written + w.n_pending + n <= w.grid[0], "writing '", w.path, "': ", n,
             " planes behind ", w.n_written + w.n_pending, " of ", w.grid[0]);
  hdf5::Lock lock;
  int64_t at = 0;
  while (at < n) {
    if (w.n_pending == 0 && n - at >= w.at_once) {  // whole rows of chunks go without a copy
      const int64_t whole = (n - at) / w.at_once * w.at_once;
      w.write(slab.rows(at, at + whole));
      at += whole;
      continue;
    }
    if (!w.pending.defined()) {
      Shape shape{w.at_once};
      for (int i = 1; i < w.grid.rank(); ++i) shape = shape.append(w.grid[i]);
      w.pending = Tensor::empty(shape, w.type);
    }
    const int64_t more = std::min(n - at, w.at_once - w.n_pending);
    const Tensor from = slab.rows(at, at + more);
    std::memcpy(w.pending.rows(w.n_pending, w.n_pending + more).raw(), from.raw(),
                static_cast<size_t>(from.bytes()));
    w.n_pending += more;
    at += more;
    if (w.n_pending == w.at_once || w.n_written + w.n_pending == w.grid[0]) {
      w.write(w.pending.rows(0, w.n_pending));
      w.n_pending = 0;
    }
  }
}

void NetcdfLikeWriter::close() {
  Impl& w = *impl_;
  BORA_CHECK(w.n_written == w.grid[0], "writing '", w.path, "': ", w.n_written, " of ", w.grid[0],
             " planes were written");
  w.out.close();
}

void write_netcdf_like(const std::string& path, const std::string& like,
                       const std::string& like_variable, const std::vector<std::string>& axes,
                       const std::string& variable, const Tensor& values,
                       const std::vector<std::pair<std::string, std::string>>& attributes) {
  BORA_CHECK(values.defined(), "writing '", path, "': no values");
  BORA_CHECK(static_cast<int>(axes.size()) == values.rank(), "writing '", path,
             "': values of shape ", values.shape(), " with ", axes.size(), " axes");
  NetcdfLikeWriter out(path, {.file = like,
                              .variable = like_variable,
                              .axes = axes,
                              .name = variable,
                              .type = values.dtype(),
                              .attributes = attributes});
  for (int i = 0; i < values.rank(); ++i)
    BORA_CHECK(values.size(i) == out.shape()[i], "writing '", path, "': axis '",
               axes[static_cast<size_t>(i)], "' has ", values.size(i), " cells, ", out.shape()[i],
               " in '", like, "'");
  out.write(values);
  out.close();
}

}  // namespace bora::data
