// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/static_shared.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "kernels/simt/simt.hpp"

namespace bora::simt::detail {

/// The program's .symtab, mapped.  Symbols of thread-local statics inside a function f are
/// _ZZ<f>E<name>, f itself is _Z<f>.
class SymbolTable {
 public:
  SymbolTable() {
    map_file();
    if (symbols_.empty()) return;
    ::dl_iterate_phdr(&SymbolTable::on_object, this);
    // Trust the arithmetic only if it finds a variable whose address is known.
    const Elf64_Sym* known = find([](const Elf64_Sym& s, std::string_view name) {
      return type(s) == STT_TLS && name == "threadIdx";
    });
    if (known == nullptr || block() == nullptr || block() + known->st_value != bytes_of_thread())
      symbols_ = {};
  }

  StaticShared shared_of(const void* kernel) const {
    StaticShared found;
    const auto value = reinterpret_cast<uintptr_t>(kernel) - bias_;
    const Elf64_Sym* function = find([&](const Elf64_Sym& s, std::string_view name) {
      return type(s) == STT_FUNC && s.st_value == value && name.starts_with("_Z");
    });
    if (function == nullptr) return found;
    const std::string prefix = "_ZZ" + std::string(name_of(*function).substr(2)) + "E";
    find([&](const Elf64_Sym& s, std::string_view name) {
      if (type(s) == STT_TLS && s.st_size > 0 && name.starts_with(prefix) && found.n_ < 32) {
        found.variables_[found.n_++] = {s.st_value, s.st_size};
        found.bytes_ += s.st_size;
      }
      return false;
    });
    return found;
  }

  /// Begin of this thread's copy of the program's thread-local block.
  char* block() const {
#if defined(__x86_64__)
    if (tls_bytes_ == 0) return nullptr;
    const size_t size = (tls_bytes_ + tls_align_ - 1) / tls_align_ * tls_align_;
    return static_cast<char*>(__builtin_thread_pointer()) - size;
#else
    return nullptr;
#endif
  }

 private:
  static unsigned type(const Elf64_Sym& s) { return ELF64_ST_TYPE(s.st_info); }
  static char* bytes_of_thread() { return reinterpret_cast<char*>(&threadIdx); }
  std::string_view name_of(const Elf64_Sym& s) const { return names_ + s.st_name; }

  template <class F>
  const Elf64_Sym* find(const F& f) const {
    for (const Elf64_Sym& s : symbols_)
      if (f(s, name_of(s))) return &s;
    return nullptr;
  }

  static int on_object(dl_phdr_info* info, size_t, void* self) {
    auto& table = *static_cast<SymbolTable*>(self);
    table.bias_ = info->dlpi_addr;  // the first one is the program
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      if (header.p_type != PT_TLS) continue;
      table.tls_bytes_ = header.p_memsz;
      table.tls_align_ = header.p_align > 0 ? header.p_align : 1;
    }
    return 1;
  }

  void map_file() {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd < 0 || ::fstat(fd, &status) != 0) return;
    const auto size = static_cast<size_t>(status.st_size);
    void* file = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    if (file == MAP_FAILED || size < sizeof(Elf64_Ehdr)) return;
    const char* const bytes = static_cast<const char*>(file);
    const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(bytes);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr) > size)
      return;
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header.e_shoff);
    for (int i = 0; i < header.e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB) continue;
      names_ = bytes + sections[sections[i].sh_link].sh_offset;
      symbols_ = {reinterpret_cast<const Elf64_Sym*>(bytes + sections[i].sh_offset),
                  sections[i].sh_size / sizeof(Elf64_Sym)};
    }
  }

  std::span<const Elf64_Sym> symbols_;
  const char* names_ = nullptr;
  uintptr_t bias_ = 0;
  size_t tls_bytes_ = 0, tls_align_ = 1;
};

namespace {

const SymbolTable& table() {
  static auto* instance = new SymbolTable();
  return *instance;
}

}  // namespace

const StaticShared& StaticShared::of(const void* kernel) {
  static auto* mutex = new std::mutex();
  static auto* known = new std::map<const void*, StaticShared>();
  const std::lock_guard lock(*mutex);
  const auto found = known->find(kernel);
  if (found != known->end()) return found->second;
  return known->emplace(kernel, table().shared_of(kernel)).first->second;
}

void StaticShared::poison() const {
  if (n_ == 0) return;
  char* const block = table().block();
  for (size_t i = 0; i < n_; ++i)
    std::memset(block + variables_[i].offset, 0xff, variables_[i].bytes);
}

}  // namespace bora::simt::detail
