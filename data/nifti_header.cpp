// SPDX-License-Identifier: Apache-2.0
#include "data/nifti_header.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr int64_t kSize1 = 348, kSize2 = 540;

struct Datatype {
  int code;
  const char* name;
  int bits;
  std::optional<NumberType> number;  // nothing: known, not read
};
constexpr Datatype kDatatypes[] = {{1, "bit", 1, {}},
                                   {2, "uint8", 8, NumberType::u8},
                                   {4, "int16", 16, NumberType::i16},
                                   {8, "int32", 32, NumberType::i32},
                                   {16, "float32", 32, NumberType::f32},
                                   {32, "complex64", 64, {}},
                                   {64, "float64", 64, NumberType::f64},
                                   {128, "RGB24", 24, {}},
                                   {256, "int8", 8, NumberType::i8},
                                   {512, "uint16", 16, NumberType::u16},
                                   {768, "uint32", 32, NumberType::u32},
                                   {1024, "int64", 64, NumberType::i64},
                                   {1280, "uint64", 64, NumberType::u64},
                                   {1536, "float128", 128, {}},
                                   {1792, "complex128", 128, {}},
                                   {2048, "complex256", 256, {}},
                                   {2304, "RGBA32", 32, {}}};

const Datatype* find_datatype(int code) {
  const auto* it = std::find_if(std::begin(kDatatypes), std::end(kDatatypes),
                                [&](const Datatype& d) { return d.code == code; });
  return it == std::end(kDatatypes) ? nullptr : it;
}

/// The numbers of a header by their place.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, bool is_swapped)
      : bytes_(bytes), is_swapped_(is_swapped) {}
  template <class T>
  T at(int64_t offset) const {
    std::array<std::byte, sizeof(T)> b{};
    std::copy_n(bytes_.begin() + offset, sizeof(T), b.begin());
    if (is_swapped_) std::reverse(b.begin(), b.end());
    T v;
    std::memcpy(&v, b.data(), sizeof v);
    return v;
  }
  std::string text(int64_t offset, int64_t length) const {
    const auto* from = reinterpret_cast<const char*>(bytes_.data()) + offset;
    return {from, std::find(from, from + length, '\0')};
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_swapped_;
};

int32_t first_number(std::span<const std::byte> bytes, bool is_swapped) {
  return bytes.size() < 4 ? 0 : Fields(bytes, is_swapped).at<int32_t>(0);
}

/// Text for messages: what cannot be printed as '?'.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

/// The fields whose places and types the versions give differently.  Real: float or double, Int:
/// of dim.
template <class Real, class Int>
void read_fields(const Fields& f, NiftiHeader& h, int64_t dim, int64_t pixdim, int64_t scale,
                 int64_t forms) {
  const Int n = f.at<Int>(dim);
  h.n_dims = static_cast<int>(std::clamp<int64_t>(n, -1, 8));
  for (size_t i = 0; i < 7; ++i)
    h.dim[i] = f.at<Int>(dim + static_cast<int64_t>((i + 1) * sizeof(Int)));
  const auto reals = [&](int64_t offset, auto* to, size_t count) {
    for (size_t i = 0; i < count; ++i)
      to[i] = f.at<Real>(offset + static_cast<int64_t>(i * sizeof(Real)));
  };
  reals(pixdim, h.pixdim.data(), 8);
  h.slope = f.at<Real>(scale);
  h.intercept = f.at<Real>(scale + int64_t{sizeof(Real)});
  reals(forms, h.quaternion.data(), 3);
  reals(forms + int64_t{3 * sizeof(Real)}, h.offset.data(), 3);
  for (size_t i = 0; i < 3; ++i)
    reals(forms + static_cast<int64_t>((6 + 4 * i) * sizeof(Real)), h.sform[i].data(), 4);
}

/// What the file says, in the byte order that sizeof_hdr shows.
NiftiHeader parse(std::vector<std::byte> bytes, const std::string& path, int& bits) {
  NiftiHeader h;
  const int32_t here = first_number(bytes, false), other = first_number(bytes, true);
  h.is_swapped = other == kSize1 || other == kSize2;
  const int32_t size = h.is_swapped ? other : here;
  h.version = size == kSize2 ? 2 : 1;
  const Fields f(bytes, h.is_swapped);
  const std::string magic = f.text(h.version == 1 ? 344 : 4, 4);
  const std::string single = h.version == 1 ? "n+1" : "n+2", pair = h.version == 1 ? "ni1" : "ni2";
  BORA_CHECK(magic == single || magic == pair, "reading '", path,
             "': a NIfTI header with the magic '", printable(magic), "', wanted '", single,
             "' or '", pair, "'");
  BORA_CHECK(size == (h.version == 1 ? kSize1 : kSize2), "reading '", path, "': sizeof_hdr is ",
             size, ", wanted ", h.version == 1 ? kSize1 : kSize2);
  h.is_pair = magic == pair;
  if (h.version == 1) {
    h.datatype = f.at<int16_t>(70), bits = f.at<int16_t>(72);
    read_fields<float, int16_t>(f, h, 40, 76, 112, 256);
    h.vox_offset = f.at<float>(108);
    h.units = f.at<uint8_t>(123);
    h.qform_code = f.at<int16_t>(252), h.sform_code = f.at<int16_t>(254);
    h.intent_code = f.at<int16_t>(68);
    h.description = f.text(148, 80);
  } else {
    const std::array<int, 4> eol{f.at<uint8_t>(8), f.at<uint8_t>(9), f.at<uint8_t>(10),
                                 f.at<uint8_t>(11)};
    BORA_CHECK((eol == std::array{13, 10, 26, 10} || eol == std::array{0, 0, 0, 0}), "reading '",
               path, "': bytes 8 to 11 are ", eol[0], " ", eol[1], " ", eol[2], " ", eol[3],
               ", wanted 13 10 26 10: line ends were converted as in a text");
    h.datatype = f.at<int16_t>(12), bits = f.at<int16_t>(14);
    read_fields<double, int64_t>(f, h, 16, 104, 176, 352);
    h.vox_offset = static_cast<double>(f.at<int64_t>(168));
    h.units = f.at<int32_t>(500);
    h.qform_code = f.at<int32_t>(344), h.sform_code = f.at<int32_t>(348);
    h.intent_code = f.at<int32_t>(504);
    h.description = f.text(240, 80);
  }
  h.bytes = std::move(bytes);
  return h;
}

void check_numbers(const NiftiHeader& h, int bits, const std::string& path) {
  const Fields f(h.bytes, h.is_swapped);
  const int64_t n_dims = h.version == 1 ? f.at<int16_t>(40) : f.at<int64_t>(16);
  BORA_CHECK(n_dims >= 1 && n_dims <= 7, "reading '", path, "': dim[0] is ", n_dims,
             ", wanted 1 to 7");
  for (int i = 0; i < h.n_dims; ++i) {
    const int64_t d = h.dim[static_cast<size_t>(i)];
    BORA_CHECK(d >= 1, "reading '", path, "': dim[", i + 1, "] is ", d, ", wanted at least 1");
  }
  const Datatype* type = find_datatype(h.datatype);
  BORA_CHECK(type != nullptr, "reading '", path, "': datatype ", h.datatype,
             " is not one of NIfTI's");
  BORA_CHECK(type->number.has_value(), "reading '", path, "': datatype ", type->name,
             " is not read, wanted an integer or float type of up to 64 bits");
  BORA_CHECK(bits == type->bits, "reading '", path, "': bitpix is ", bits, ", but ", type->name,
             " has ", type->bits);
  const int64_t least = h.is_pair ? 0 : h.size() + 4;
  BORA_CHECK(std::isfinite(h.vox_offset) && h.vox_offset >= static_cast<double>(least) &&
                 h.vox_offset < 0x1p62,
             "reading '", path, "': vox_offset is ", h.vox_offset, ", wanted at least ", least,
             h.is_pair ? "" : " in a file of header and values");
}

}  // namespace

NiftiMark nifti_mark(std::span<const std::byte> bytes) {
  for (const bool is_swapped : {false, true}) {
    const int32_t size = first_number(bytes, is_swapped);
    if (size == kSize2 && std::ssize(bytes) >= 8) {
      const std::string magic = Fields(bytes, false).text(4, 4);
      if (magic == "n+2" || magic == "ni2") return NiftiMark::nifti;
    }
    if (size != kSize1) continue;
    if (std::ssize(bytes) < kSize1) return NiftiMark::nifti;  // a cut-off one
    const std::string magic = Fields(bytes, false).text(344, 4);
    return magic == "n+1" || magic == "ni1" ? NiftiMark::nifti : NiftiMark::analyze;
  }
  // A header whose first number is wrong, so that the magic is all there is.
  if (std::ssize(bytes) >= kSize1) {
    const std::string magic = Fields(bytes, false).text(344, 4);
    if (magic == "n+1" || magic == "ni1") return NiftiMark::nifti;
  }
  return NiftiMark::none;
}

std::optional<NumberType> nifti_number(int datatype) {
  const Datatype* type = find_datatype(datatype);
  return type == nullptr ? std::nullopt : type->number;
}

int nifti_datatype(DType type) {
  switch (type) {
    case DType::u8:
      return 2;
    case DType::i32:
      return 8;
    case DType::f32:
      return 16;
    case DType::f64:
      return 64;
    case DType::i64:
      return 1024;
    default:
      BORA_FAIL("NIfTI has no type ", type, ", wanted u8, i32, i64, f32 or f64");
  }
}

NiftiHeader read_nifti_header(ByteSource& file) {
  const std::string& path = file.path();
  std::vector<std::byte> bytes(kSize2);
  bytes.resize(static_cast<size_t>(file.read_some(0, bytes.data(), kSize2)));
  const NiftiMark mark = nifti_mark(bytes);
  BORA_CHECK(mark != NiftiMark::analyze, "reading '", path,
             "': this is Analyze 7.5 (a header of 348 bytes without NIfTI's magic), which does not "
             "say which way the axes look; convert it: python3 -c \"import nibabel as n; i = "
             "n.load('",
             path, "'); n.save(n.Nifti1Image(i.dataobj, i.affine), 'new.nii')\"");
  BORA_CHECK(mark == NiftiMark::nifti, "reading '", path,
             "': no NIfTI header: the first number is ", first_number(bytes, false),
             ", wanted 348 or 540 in either byte order");
  const bool is_2 = first_number(bytes, false) == kSize2 || first_number(bytes, true) == kSize2;
  const int64_t size = is_2 ? kSize2 : kSize1;
  BORA_CHECK(std::ssize(bytes) >= size, "reading '", path, "': the NIfTI header is cut off after ",
             bytes.size(), " of ", size, " bytes");
  bytes.resize(static_cast<size_t>(size));

  int bits = 0;
  NiftiHeader h = parse(std::move(bytes), path, bits);
  check_numbers(h, bits, path);
  for (size_t i = static_cast<size_t>(h.n_dims); i < 7; ++i) h.dim[i] = 1;
  // As nibabel mends a header when it loads one.
  if (h.pixdim[0] != 1 && h.pixdim[0] != -1) h.pixdim[0] = 1;
  for (size_t i = 1; i < 4; ++i) h.pixdim[i] = h.pixdim[i] == 0 ? 1 : std::abs(h.pixdim[i]);
  for (int* code : {&h.qform_code, &h.sform_code})
    if (*code < 0 || *code > 5) *code = 0;

  const bool is_scaled = h.slope != 0 && std::isfinite(h.slope);
  BORA_CHECK(!is_scaled || std::isfinite(h.intercept), "reading '", path, "': scl_slope is ",
             h.slope, ", but scl_inter is ", h.intercept, ", wanted a finite number");
  const Affine affine = with_context("reading '" + path + "'", [&] { return h.affine(); });
  for (const auto& row : affine)
    for (const double v : row)
      BORA_CHECK(std::isfinite(v), "reading '", path, "': the ",
                 h.sform_code != 0   ? "sform"
                 : h.qform_code != 0 ? "qform"
                                     : "pixdim",
                 " has a number that is not finite");
  return h;
}

Affine NiftiHeader::affine() const {
  Affine out{};
  if (sform_code != 0) return sform;
  if (qform_code == 0) {
    for (size_t i = 0; i < 3; ++i) {
      const bool is_there = static_cast<int>(i) < n_dims;
      const double size = (is_there ? pixdim[i + 1] : 1) * (i == 0 ? -1 : 1);
      out[i][i] = size;
      out[i][3] = -(static_cast<double>(dim[i] - 1) / 2) * size;
    }
    return out;
  }
  // In long double and rounded once, as nibabel does, so that the results are the same bits.
  const long double x = quaternion[0], y = quaternion[1], z = quaternion[2];
  const long double rest = 1 - (x * x + y * y + z * z);
  const long double threshold =
      3 * static_cast<long double>(version == 1 ? std::numeric_limits<float>::epsilon()
                                                : std::numeric_limits<double>::epsilon());
  BORA_CHECK(!(rest < 0 && std::abs(rest) >= threshold), "the qform's quaternion (", quaternion[0],
             ", ", quaternion[1], ", ", quaternion[2], ") is longer than 1");
  const long double w = std::abs(rest) < threshold ? 0 : std::sqrt(rest);
  const long double norm = w * w + x * x + y * y + z * z;
  const long double s = 2 / norm;  // norm is at least 1 - threshold
  const long double sx = x * s, sy = y * s, sz = z * s;
  const long double wx = w * sx, wy = w * sy, wz = w * sz, xx = x * sx, xy = x * sy, xz = x * sz,
                    yy = y * sy, yz = y * sz, zz = z * sz;
  const long double r[3][3] = {{1 - (yy + zz), xy - wz, xz + wy},
                               {xy + wz, 1 - (xx + zz), yz - wx},
                               {xz - wy, yz + wx, 1 - (xx + yy)}};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j)
      out[i][j] = static_cast<double>(r[i][j] * (j == 2 ? pixdim[3] * pixdim[0] : pixdim[j + 1]));
    out[i][3] = offset[i];
  }
  return out;
}

std::string NiftiHeader::spacing_unit() const {
  switch (units & 7) {
    case 1:
      return "m";
    case 2:
      return "mm";
    case 3:
      return "um";
    default:
      return {};
  }
}

DenseArray nifti_array(const NiftiHeader& header, const std::string& path) {
  for (size_t i = 4; i < 7; ++i)
    BORA_CHECK(header.dim[i] == 1, "reading '", path, "': dim[", i + 1, "] is ", header.dim[i],
               ", wanted 1: a volume has three axes, and a fourth one of times or channels");
  DenseArray out;
  out.type = nifti_number(header.datatype).value();
  out.is_swapped = header.is_swapped;
  for (size_t i = 0; i < 4; ++i) out.extents[i] = header.dim[i];
  if (header.slope != 0 && std::isfinite(header.slope)) {
    out.slope = header.slope;
    out.intercept = header.intercept;
  }
  with_context("reading '" + path + "'", [&] { return out.bytes(); });
  return out;
}

}  // namespace bora::data
