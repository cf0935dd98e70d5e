// SPDX-License-Identifier: Apache-2.0
#include "data/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy itself reads headers up to 10,000 characters unless told otherwise.
constexpr int64_t kLongestHeader = int64_t{1} << 20;

/// The Python literal that a header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Literal {
 public:
  Literal(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(bora::detail::join("'", c, "'"));
  }
  std::string_view string() {
    skip_spaces();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) fail("a quoted text");
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == rest_.npos) fail("the end of a quoted text");
    const std::string_view out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return out;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    fail("True or False");
  }
  int64_t integer() {
    skip_spaces();
    int64_t out = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error == std::errc::result_out_of_range) fail("a length that 63 bits can hold");
    if (error != std::errc{}) fail("a whole number");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    take('L');  // Python 2 wrote 5L
    return out;
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }
  /// A text, or the list of a structured type, which is not read.
  bool is_list() {
    skip_spaces();
    return !rest_.empty() && (rest_.front() == '[' || rest_.front() == '(');
  }
  [[noreturn]] void fail(const std::string& wanted) const {
    std::string found(rest_.substr(0, 24));
    for (char& c : found)
      if (c < ' ' || c > '~') c = '?';
    BORA_FAIL("reading '", path_, "': the .npy header has '", found, "' where ", wanted,
              " was wanted");
  }

 private:
  void skip_spaces() {
    const size_t n = rest_.find_first_not_of(" \t\n\r\f");
    rest_.remove_prefix(n == rest_.npos ? rest_.size() : n);
  }
  std::string_view rest_;
  const std::string& path_;
};

/// "<f4" and such.
void set_type(std::string_view descr, NpyHeader& h, const std::string& path) {
  static constexpr struct {
    std::string_view code;
    NumberType type;
  } kTypes[] = {{"b1", NumberType::u8},  {"u1", NumberType::u8},  {"i1", NumberType::i8},
                {"u2", NumberType::u16}, {"i2", NumberType::i16}, {"u4", NumberType::u32},
                {"i4", NumberType::i32}, {"u8", NumberType::u64}, {"i8", NumberType::i64},
                {"f2", NumberType::f16}, {"f4", NumberType::f32}, {"f8", NumberType::f64}};
  static constexpr struct {
    char kind;
    const char* name;
  } kOthers[] = {{'c', "complex numbers"},
                 {'f', "long double"},
                 {'O', "Python objects"},
                 {'S', "text"},
                 {'a', "text"},
                 {'U', "text"},
                 {'V', "raw bytes"},
                 {'M', "dates"},
                 {'m', "time spans"}};
  const char order = descr.empty() ? '?' : descr.front();
  const bool has_order = order == '<' || order == '>' || order == '=' || order == '|';
  const std::string_view code = has_order ? descr.substr(1) : descr;
  for (const auto& t : kTypes)
    if (code == t.code) {
      h.type = t.type;
      const bool is_little = std::endian::native == std::endian::little;
      h.is_swapped = size_of(h.type) > 1 && order == (is_little ? '>' : '<');
      return;
    }
  std::string name = "no type that is known here";
  for (const auto& o : kOthers)
    if (!code.empty() && code.front() == o.kind) name = o.name;
  BORA_FAIL("reading '", path, "': the .npy file has type '", descr, "' (", name,
            "), wanted bool, an integer of 1 to 8 bytes or a float of 2, 4 or 8");
}

std::vector<int64_t> shape_from(Literal& in, const std::string& path) {
  std::vector<int64_t> out;
  in.expect('(');
  while (!in.take(')')) {
    out.push_back(in.integer());
    BORA_CHECK(out.back() >= 0, "reading '", path, "': the .npy header has the length ", out.back(),
               ", wanted at least 0");
    BORA_CHECK(out.size() <= 64, "reading '", path, "': the .npy header has more than 64 axes");
    if (in.take(',')) continue;
    in.expect(')');
    break;
  }
  return out;
}

class NpyFile final : public VolumeFile {
 public:
  explicit NpyFile(const VolumeSource& source) : file_(open_bytes(source.path)) {
    const std::string& path = source.path;
    BORA_CHECK(source.variable.empty(), "reading '", path, "': a .npy file has no variables, but '",
               source.variable, "' was asked for");
    const NpyHeader header = read_npy_header(*file_);
    const size_t n_axes = header.shape.size();
    std::string shape;
    for (const int64_t e : header.shape) shape += bora::detail::join(shape.empty() ? "" : " x ", e);
    BORA_CHECK(n_axes == 3 || n_axes == 4, "reading '", path, "': an array of ",
               n_axes == 0 ? "no axes" : shape, ", wanted three axes, or four with channels");
    for (const int64_t e : header.shape)
      BORA_CHECK(e > 0, "reading '", path, "': an array of ", shape, " has no cells");
    std::string order = source.order.empty() ? (n_axes == 3 ? "zyx" : "czyx") : source.order;
    std::string sorted = order;
    std::sort(sorted.begin(), sorted.end());
    // An order with channels says how the others lie: labels beside images of several channels.
    if (n_axes == 3 && sorted == "cxyz") std::erase(order, 'c'), std::erase(sorted, 'c');
    BORA_CHECK(sorted == (n_axes == 3 ? "xyz" : "cxyz"), "reading '", path, "': the order '", order,
               "' for an array of ", shape, ", wanted each of ",
               n_axes == 3 ? "x, y and z" : "x, y, z and c", " once");

    array_.offset = header.offset;
    array_.type = header.type;
    array_.is_swapped = header.is_swapped;
    // Slowest first; a channel axis that is not there goes in front.
    size_t place = n_axes == 3 ? 1 : 0;
    array_.order[0] = 3;
    for (size_t i = 0; i < n_axes; ++i) {
      const size_t from = header.is_fortran ? n_axes - 1 - i : i;
      const auto axis = std::string_view("xyzc").find(order[from]);
      array_.order[place++] = static_cast<int>(axis);
      array_.extents[axis] = header.shape[from];
    }
    const int64_t bytes = with_context("reading '" + path + "'", [&] { return array_.bytes(); });
    BORA_CHECK(array_.offset <= file_->file_bytes() && bytes <= file_->file_bytes() - array_.offset,
               "reading '", path, "': the header says ", shape, " numbers of ",
               array_.stored_type(), " from byte ", array_.offset, " on, but the file has ",
               file_->file_bytes(), " bytes");

    info_.source = source;
    info_.format = "NumPy";
    info_.grid = array_.grid();
    info_.channels = array_.extents[3];
    info_.type = array_.smallest_type();
    info_.stored_type = array_.stored_type();
    info_.codec = "none";
    info_.stored_bytes = bytes;
    info_.file_bytes = file_->file_bytes();
  }

  const VolumeInfo& info() const override { return info_; }
  Tensor read(const Dims3& begin, const Dims3& count, DType type) const override {
    return read_box(*file_, array_, begin, count, type);
  }

 private:
  std::unique_ptr<ByteSource> file_;
  DenseArray array_;
  VolumeInfo info_;
};

}  // namespace

NpyHeader read_npy_header(ByteSource& file) {
  const std::string& path = file.path();
  BORA_CHECK(!file.is_gzip(), "reading '", path, "': a gzip file, wanted a plain .npy file");
  std::array<unsigned char, 12> start{};
  const int64_t n = file.read_some(0, start.data(), std::ssize(start));
  BORA_CHECK(n >= 10 && std::equal(kMagic.begin(), kMagic.end(), start.begin(),
                                   [](char a, unsigned char b) {
                                     return static_cast<unsigned char>(a) == b;
                                   }),
             "reading '", path, "': no .npy file: it does not begin with \\x93NUMPY and a version");
  const int major = start[6], minor = start[7];
  BORA_CHECK(major >= 1 && major <= 3 && minor == 0, "reading '", path, "': .npy format ", major,
             ".", minor, ", wanted 1.0, 2.0 or 3.0");
  int64_t length = start[8] + 256 * int64_t{start[9]};
  if (major >= 2) {
    BORA_CHECK(n == std::ssize(start), "reading '", path, "': the .npy header is cut off");
    length += (int64_t{start[10]} << 16) + (int64_t{start[11]} << 24);
  }
  const int64_t begin = major == 1 ? 10 : 12;
  BORA_CHECK(length <= kLongestHeader && begin + length <= file.file_bytes(), "reading '", path,
             "': the .npy header says it has ", length, " bytes, but the file has ",
             file.file_bytes(), " and ", kLongestHeader, " are the most");
  std::string text(static_cast<size_t>(length), ' ');
  file.read(begin, text.data(), length);

  NpyHeader h;
  h.offset = begin + length;
  Literal in(text, path);
  std::optional<std::string_view> descr;
  bool has_order = false, has_shape = false;
  in.expect('{');
  while (!in.take('}')) {
    const std::string_view key = in.string();
    in.expect(':');
    if (key == "descr") {
      BORA_CHECK(!in.is_list(), "reading '", path,
                 "': the .npy file has a structured type (records of several fields), wanted "
                 "plain numbers");
      descr = in.string();
    } else if (key == "fortran_order") {
      h.is_fortran = in.boolean(), has_order = true;
    } else if (key == "shape") {
      h.shape = shape_from(in, path), has_shape = true;
    } else {
      in.fail("no key but 'descr', 'fortran_order' and 'shape'");
    }
    if (in.take(',')) continue;
    in.expect('}');
    break;
  }
  if (!in.at_end()) in.fail("the end");
  BORA_CHECK(descr && has_order && has_shape, "reading '", path, "': the .npy header has no '",
             !descr       ? "descr"
             : !has_order ? "fortran_order"
                          : "shape",
             "'");
  set_type(*descr, h, path);
  return h;
}

std::unique_ptr<VolumeFile> open_npy_volume(const VolumeSource& source) {
  return std::make_unique<NpyFile>(source);
}

}  // namespace bora::data
