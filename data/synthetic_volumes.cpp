// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic_volumes.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "core/tensor.hpp"
#include "data/atomic_file.hpp"
#include "data/hdf5.hpp"
#include "data/permute.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

template <class T>
void put(std::string& bytes, size_t at, T value) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

/// A NIfTI-1 file of one volume, values x fastest.  Fields and their places: nifti1.h of the NIfTI
/// Data Format Working Group.
std::string nifti_bytes(const Tensor& values, double spacing_mm) {
  constexpr size_t kHeader = 348, kOffset = 352;
  const bool labels = values.dtype() == DType::u8;
  const int64_t nx = values.size(0), ny = values.size(1), nz = values.size(2), nc = values.size(3);
  std::string bytes(kOffset, '\0');
  put<int32_t>(bytes, 0, kHeader);
  const std::array<int64_t, 8> dim{nc > 1 ? 4 : 3, nx, ny, nz, nc, 1, 1, 1};
  const auto mm = static_cast<float>(spacing_mm);
  for (size_t i = 0; i < 8; ++i) {
    put<int16_t>(bytes, 40 + 2 * i, static_cast<int16_t>(dim[i]));
    put<float>(bytes, 76 + 4 * i, i >= 1 && i <= 3 ? mm : 1);
  }
  put<int16_t>(bytes, 70, labels ? 2 : 16);  // datatype: u8 or f32
  put<int16_t>(bytes, 72, labels ? 8 : 32);  // bits of a value
  put<float>(bytes, 108, kOffset);           // vox_offset
  put<char>(bytes, 123, 2);                  // lengths in mm
  put<int16_t>(bytes, 254, 1);               // sform: scanner coordinates
  for (size_t row = 0; row < 3; ++row) put<float>(bytes, 280 + 16 * row + 4 * row, mm);
  std::memcpy(bytes.data() + 344, "n+1", 4);
  // (X, Y, Z, C), C fastest, to x fastest.
  const Tensor turned = permute(values, {3, 2, 1, 0});
  bytes.append(static_cast<const char*>(turned.raw()),
               static_cast<size_t>(turned.numel() * size_of(turned.dtype())));
  return bytes;
}

void write_gzip(const std::string& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb4");
  BORA_CHECK(file != nullptr, "cannot create '", path, "'");
  const bool written = gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
                       static_cast<int>(bytes.size());
  BORA_CHECK(gzclose(file) == Z_OK && written, "cannot write '", path, "'");
}

struct CaseFields {
  Tensor image, label, weight;  // (X, Y, Z, C) f32, (X, Y, Z, 1) u8, (X, Y, Z, 1) f32
};

CaseFields make_fields(const SyntheticVolumesOptions& o, int of_case) {
  const std::vector<SyntheticShape> shapes = synthetic_shapes(o, of_case);
  const Shape grid{o.grid.d, o.grid.h, o.grid.w};
  CaseFields f{Tensor::empty(grid.append(o.channels), DType::f32),
               Tensor::empty(grid.append(1), DType::u8), Tensor::empty(grid.append(1), DType::f32)};
  const RngKey noise{o.seed, rng_stream("synthetic volume noise", static_cast<uint64_t>(of_case))};
  int64_t i = 0;
  for (int64_t x = 0; x < o.grid.d; ++x)
    for (int64_t y = 0; y < o.grid.h; ++y)
      for (int64_t z = 0; z < o.grid.w; ++z, ++i) {
        const auto middle = [](int64_t k) { return static_cast<double>(k) + 0.5; };
        const uint8_t c = synthetic_class(shapes, middle(x), middle(y), middle(z));
        f.label.data<uint8_t>()[i] = c;
        f.weight.data<float>()[i] = c > 0 ? 2.0f : 1.0f;
        for (int64_t k = 0; k < o.channels; ++k) {
          const int64_t at = i * o.channels + k;
          const double clean = 100 * (c + 1.0) * (1 + 0.5 * static_cast<double>(k));
          f.image.data<float>()[at] =
              static_cast<float>(clean + 100 * o.noise * noise.normal(static_cast<uint64_t>(at)));
        }
      }
  return f;
}

void write_hdf5(const std::string& path, const SyntheticVolumesOptions& o, const CaseFields& f) {
  hdf5::Lock lock;
  hdf5::File file = hdf5::File::create(path);
  hdf5::Storage storage;
  storage.deflate = 4;
  storage.shuffle = true;
  const auto write = [&](const char* name, const Tensor& field) {
    const Tensor turned = permute(field, {3, 2, 1, 0});  // (c, z, y, x)
    const Tensor out = turned.size(0) > 1
                           ? turned
                           : turned.reshape({turned.size(1), turned.size(2), turned.size(3)});
    file.create_dataset(name, out.shape(), out.dtype(), storage).write(out);
  };
  write("raw", f.image);
  write("label", f.label);
  if (o.weights) write("weight", f.weight);
  file.close();
}

void write_nifti(const std::string& path, const Tensor& field, const SyntheticVolumesOptions& o) {
  const std::string bytes = nifti_bytes(field, o.spacing_mm);
  if (o.format == "nii")
    write_file_atomic(path, bytes);
  else
    write_gzip(path, bytes);
}

}  // namespace

std::vector<std::string> synthetic_classes() { return {"background", "ball", "box"}; }

std::vector<SyntheticShape> synthetic_shapes(const SyntheticVolumesOptions& o, int of_case) {
  const RngKey key{o.seed, rng_stream("synthetic volume", static_cast<uint64_t>(of_case))};
  std::vector<SyntheticShape> shapes(4);
  const auto least = static_cast<double>(std::min({o.grid.d, o.grid.h, o.grid.w}));
  for (size_t s = 0; s < shapes.size(); ++s) {
    const auto draw = [&](double low, double high, uint64_t i) {
      return low + (high - low) * static_cast<double>(key.uniform(8 * s + i));
    };
    SyntheticShape& shape = shapes[s];
    shape.of_class = s < 2 ? 1 : 2;
    shape.radius = draw(0.12, 0.24, 0) * least;
    const auto place = [&](int64_t n, uint64_t i) {
      return draw(shape.radius, static_cast<double>(n) - shape.radius, i);
    };
    shape.x = place(o.grid.d, 1);
    shape.y = place(o.grid.h, 2);
    shape.z = place(o.grid.w, 3);
  }
  return shapes;
}

uint8_t synthetic_class(const std::vector<SyntheticShape>& shapes, double x, double y, double z) {
  uint8_t of_class = 0;
  for (const SyntheticShape& s : shapes) {
    const double dx = std::abs(x - s.x), dy = std::abs(y - s.y), dz = std::abs(z - s.z);
    const bool inside = s.of_class == 1
                            ? dx * dx + dy * dy + dz * dz <= s.radius * s.radius
                            : dx <= s.radius && dy <= 0.8 * s.radius && dz <= 0.6 * s.radius;
    if (inside) of_class = s.of_class;
  }
  return of_class;
}

std::vector<std::string> write_synthetic_volumes(const std::string& root,
                                                 const SyntheticVolumesOptions& o) {
  const bool known = o.format == "nii" || o.format == "nii.gz" || o.format == "h5";
  if (o.n_cases < 1 || o.grid.d < 1 || o.grid.h < 1 || o.grid.w < 1 || o.channels < 1 ||
      !(o.spacing_mm > 0) || !(o.noise >= 0) || !known)
    throw UsageError(
        "synthetic volumes: wanted at least one case, cell and channel, a spacing above 0, noise "
        "of at least 0, and the format nii, nii.gz or h5");
  if (std::max({o.grid.d, o.grid.h, o.grid.w, o.channels}) > 32767)
    throw UsageError("synthetic volumes: an axis has more than 32767 cells");
  fs::create_directories(root);
  std::vector<std::string> names;
  for (int i = 0; i < o.n_cases; ++i) {
    const std::string name = "case" + std::to_string(i + 1);
    const std::string path = (fs::path(root) / name).string();
    const CaseFields f = make_fields(o, i);
    if (o.format == "h5") {
      write_hdf5(path + ".h5", o, f);
    } else {
      write_nifti(path + "_image." + o.format, f.image, o);
      write_nifti(path + "_label." + o.format, f.label, o);
      if (o.weights) write_nifti(path + "_weight." + o.format, f.weight, o);
    }
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace bora::data
