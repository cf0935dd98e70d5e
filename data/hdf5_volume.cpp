// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_volume.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_chunks.hpp"
#include "data/hdf5_layout.hpp"
#include "data/hdf5_scales.hpp"
#include "data/hdf5_stored.hpp"
#include "data/recent.hpp"
#include "data/volume_axes.hpp"

namespace bora::data {

namespace {

using Kind = hdf5::TypeInfo::Kind;
constexpr int kDeepest = 8;         // groups in groups; links can go round in circles
constexpr size_t kMostSets = 1000;  // a table of data sets, not a file with a field in it

bool is_number(const hdf5::TypeInfo& type) {
  return type.kind == Kind::integer || type.kind == Kind::floating;
}

std::string text_of(const std::vector<int64_t>& extents) {
  std::string text;
  for (const int64_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

/// None for a data set without elements, which HDF5 has too.
std::vector<int64_t> extents_of(const hdf5::Dataset& dataset) {
  try {
    return dataset.extents();
  } catch (const Error&) {
    return {};
  }
}

/// What a file holds: its fields, and everything as text for messages.
struct Contents {
  std::vector<std::string> fields, all;
};
void look_through(const hdf5::Group& group, const std::string& above, int depth, Contents& out) {
  for (const std::string& name : group.dataset_names()) {
    if (out.all.size() >= kMostSets) return;
    const hdf5::Dataset dataset = group.open_dataset(name);
    const hdf5::TypeInfo type = dataset.type();
    const std::vector<int64_t> extents = extents_of(dataset);
    out.all.push_back(above + name + " (" + type.name + ", " + text_of(extents) + ")");
    if (is_number(type) && (extents.size() == 3 || extents.size() == 4))
      out.fields.push_back(above + name);
  }
  if (depth >= kDeepest) return;
  for (const std::string& name : group.group_names())
    look_through(group.open_group(name), above + name + "/", depth + 1, out);
}

std::string only_field(const hdf5::File& file) {
  Contents contents;
  look_through(file, "", 0, contents);
  if (contents.fields.size() == 1) return contents.fields[0];
  BORA_CHECK(!contents.fields.empty(), "'", file.path(),
             "' has no data set of numbers with 3 axes (or 4 with channels); it has ",
             hdf5::detail::list_of(contents.all));
  BORA_FAIL("'", file.path(),
            "' has several data sets that could be meant: ", hdf5::detail::list_of(contents.fields),
            "; name one as the variable");
}

/// By the names that the file gives to the axes.
std::optional<VolumeAxes> axes_by_name(const hdf5::File& file, const hdf5::Dataset& dataset,
                                       const std::string& path,
                                       const std::vector<int64_t>& extents) {
  return axes_from_names(hdf5::axis_names(file, path, dataset), extents);
}

/// Three sizes in the order of the array's axes, as x, y, z.  The channel axis, if the attribute
/// counts it, is skipped.
std::array<double, 3> sizes_of(const hdf5::Object& object, const char* name,
                               const VolumeAxes& axes) {
  const auto sizes = object.attribute<std::vector<double>>(name);
  const size_t rank = axes.c < 0 ? 3 : 4;
  BORA_CHECK(sizes.size() == 3 || sizes.size() == rank, "'", object.label(), "', attribute '", name,
             "': ", sizes.size(), " numbers, wanted 3");
  const auto size = [&](int place) {
    const bool skips = sizes.size() == 3 && axes.c >= 0 && axes.c < place;
    const double value = sizes[static_cast<size_t>(skips ? place - 1 : place)];
    BORA_CHECK(std::isfinite(value) && value > 0, "'", object.label(), "', attribute '", name,
               "': a cell of ", value, ", wanted sizes above 0");
    return value;
  };
  return {size(axes.x), size(axes.y), size(axes.z)};
}

std::string text_attribute(const hdf5::Object& object, const char* name) {
  const bool is_text = object.has_attribute(name) && object.attribute_type(name).kind == Kind::text;
  return is_text ? object.attribute<std::string>(name) : std::string();
}

void find_spacing(const hdf5::File& file, const hdf5::Dataset& dataset, const VolumeAxes& axes,
                  VolumeInfo& info) {
  const hdf5::Object* places[] = {&dataset, &file};
  for (const hdf5::Object* object : places) {
    if (object->has_attribute("spacing")) {
      info.spacing = sizes_of(*object, "spacing", axes);
      info.spacing_unit = text_attribute(*object, "spacing_unit");
      return;
    }
    if (object->has_attribute("element_size_um")) {
      info.spacing = sizes_of(*object, "element_size_um", axes);
      info.spacing_unit = "um";
      return;
    }
  }
}

/// As data convert writes it: 3 rows of 4 numbers.
void find_affine(const hdf5::Dataset& dataset, VolumeInfo& info) {
  if (!dataset.has_attribute("affine")) return;
  const auto numbers = dataset.attribute<std::vector<double>>("affine");
  BORA_CHECK(numbers.size() == 12 || numbers.size() == 16, "attribute 'affine': ", numbers.size(),
             " numbers, wanted 12 (3 rows of 4)");
  info.affine.emplace();
  for (size_t i = 0; i < 12; ++i) {
    BORA_CHECK(std::isfinite(numbers[i]), "attribute 'affine': number ", i + 1, " is ", numbers[i],
               ", wanted finite ones");
    (*info.affine)[i / 4][i % 4] = numbers[i];
  }
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }  ///< < 0: the file cannot be opened

 private:
  int fd_;
};

/// What a source says about itself, found out once for a state of its file.
struct Field {
  VolumeInfo info;
  std::vector<int64_t> extents;
  VolumeAxes axes;
  std::weak_ptr<hdf5::detail::StoredArray> stored;
};

/// About 1 KiB each.
Recent<const Field>& fields() {
  static auto& recent = *new Recent<const Field>(4096);  // threads may outlive main
  return recent;
}

/// Files that were read before are opened by the system alone, without the library and its lock.
class Hdf5Volume : public VolumeFile {
 public:
  explicit Hdf5Volume(const VolumeSource& source) : descriptor_(source.path) {
    state_ = hdf5::detail::state_of(descriptor_.get()).value_or("");
    key_ = state_ + '\n' + source.path + '\n' + source.variable + '\n' + source.order;
    if (!state_.empty()) field_ = fields().find(key_);
    if (field_) stored_ = field_->stored.lock();
  }
  bool is_known() const { return stored_ != nullptr; }

  void open(const VolumeSource& source) {
    hdf5::Lock lock;
    open_by_library(source);
    auto field = std::make_shared<Field>();
    field->info = describe(source);
    field->extents = extents_;
    field->axes = axes_;
    stored_ = stored_now();
    field->stored = stored_;
    field_ = field;
    if (stored_) fields().keep(key_, std::move(field));
  }

  const VolumeInfo& info() const override { return field_->info; }

  Tensor read(const Dims3& begin, const Dims3& count, DType type) const override {
    check_box(info(), begin, count);
    const ArrayBlock block = block_of_box(field_->axes, field_->extents, begin, count);
    if (is_float(type) || type == info().type)
      return turn_to_volume(read_block(block, type), field_->axes);
    // Through a type that holds every value, so that one that does not fit can be shown.
    const Tensor values = read_block(block, info().type);
    return whole_values(turn_to_volume(values, field_->axes), type, info(), begin);
  }

 private:
  void open_by_library(const VolumeSource& source) const {
    file_ = hdf5::File::open(source.path);
    variable_ = source.variable.empty() ? only_field(file_) : source.variable;
    dataset_.emplace(file_.open_dataset(variable_));
  }

  VolumeInfo describe(const VolumeSource& source) {
    VolumeInfo info;
    info.source = source;
    info.source.variable = variable_;
    info.format = "HDF5";
    with_context(label_of(info.source), [&] {
      const hdf5::TypeInfo type = dataset_->type();
      const DType nearest = type.dtype();  // refuses what is not a number
      info.type = nearest == DType::f16 || nearest == DType::bf16 ? DType::f32 : nearest;
      extents_ = dataset_->extents();
      for (size_t i = 0; i < extents_.size(); ++i)
        BORA_CHECK(extents_[i] > 0, "axis ", i, " of ", text_of(extents_), " has no cells");
      std::optional<VolumeAxes> named;
      if (source.order.empty() && (extents_.size() == 3 || extents_.size() == 4))
        named = axes_by_name(file_, *dataset_, variable_, extents_);
      axes_ = named ? *named : axes_from_order(source.order, extents_.size());
      describe_storage(*dataset_, axes_, info);
      find_spacing(file_, *dataset_, axes_, info);
      find_affine(*dataset_, info);
      info.unit = text_attribute(*dataset_, "units");
    });
    return info;
  }

  /// What is known of the data set that the library has open, if it is of the file that we have
  /// open: another may have taken its name.
  std::shared_ptr<hdf5::detail::StoredArray> stored_now() const {
    if (state_.empty()) return nullptr;
    auto stored = hdf5::detail::DirectRead::known(*dataset_, extents_);
    return stored && stored->state == state_ ? stored : nullptr;
  }

  Tensor read_block(const ArrayBlock& block, DType type) const {
    if (stored_ && stored_->knows(block.begin, block.count, type)) {
      Shape shape;
      for (const int64_t n : block.count) shape = shape.append(n);
      Tensor out = Tensor::empty(shape, type);
      try {
        if (stored_->read_known(descriptor_.get(), block.begin, block.count, type, out.raw()))
          return out;
      } catch (const Error&) {
        // Once more by the library below, whose message names the file and the data set.
      }
    }
    hdf5::Lock lock;
    if (!dataset_) {
      open_by_library(info().source);
      const auto now = hdf5::detail::DirectRead::known(*dataset_, field_->extents);
      BORA_CHECK(now && now->state == state_, "'", info().source.path,
                 "' was replaced while it was read; start again");
    }
    return dataset_->read(block.begin, block.count, type);
  }

  Descriptor descriptor_;
  std::string state_;  // of the file; empty: not to be known again
  std::string key_;
  std::shared_ptr<const Field> field_;
  std::shared_ptr<hdf5::detail::StoredArray> stored_;
  // Opened when they are needed.
  mutable hdf5::File file_;
  mutable std::optional<hdf5::Dataset> dataset_;
  mutable std::string variable_;
  std::vector<int64_t> extents_;
  VolumeAxes axes_;
};

}  // namespace

std::unique_ptr<VolumeFile> open_hdf5_volume(const VolumeSource& source) {
  auto volume = std::make_unique<Hdf5Volume>(source);
  if (!volume->is_known()) volume->open(source);
  return volume;
}

std::unique_ptr<VolumeFile> open_known_hdf5_volume(const VolumeSource& source) {
  auto volume = std::make_unique<Hdf5Volume>(source);
  if (!volume->is_known()) return nullptr;
  return volume;
}

}  // namespace bora::data
