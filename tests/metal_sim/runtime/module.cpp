#include "module.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>

namespace msl {
namespace {

struct Search {
    uintptr_t code, begin, end;
};

int visit(dl_phdr_info *info, size_t, void *data) {
    auto *search = static_cast<Search *>(data);
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto &header = info->dlpi_phdr[i];
        if (header.p_type != PT_LOAD) continue;
        begin = std::min<uintptr_t>(begin, info->dlpi_addr + header.p_vaddr);
        end = std::max<uintptr_t>(end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
    }
    if (search->code < begin || search->code >= end) return 0;
    search->begin = begin;
    search->end = end;
    return 1;
}

} // namespace

void module_of(const void *code, const unsigned char **begin, const unsigned char **end) {
    Search search{reinterpret_cast<uintptr_t>(code), 0, 0};
    dl_iterate_phdr(&visit, &search);
    *begin = reinterpret_cast<const unsigned char *>(search.begin);
    *end = reinterpret_cast<const unsigned char *>(search.end);
}

std::string place_in_module(const void *code) {
    Dl_info info{};
    if (!dladdr(code, &info) || !info.dli_fname) return "{unknown}";
    const auto offset = reinterpret_cast<uintptr_t>(code) - reinterpret_cast<uintptr_t>(info.dli_fbase);
    char number[32];
    snprintf(number, sizeof number, "+0x%lx}", static_cast<unsigned long>(offset));
    return "{" + std::string(info.dli_fname) + number;
}

} // namespace msl
