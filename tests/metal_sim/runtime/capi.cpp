// For runner.py, which calls through ctypes: the structures of launch.h as they are, memory as opaque handles.
#include <cstdlib>
#include <cstring>

#include "launch.h"
#include "memory.h"
#include "reports.h"

extern "C" {

int msl_dispatch(const msl::Launch *launch, msl::Statistics *statistics) { return msl::dispatch(*launch, statistics); }

void *msl_memory_new(unsigned char *base, uint64_t bytes) { return new msl::Allocation(base, bytes); }
void msl_memory_delete(void *memory) { delete static_cast<msl::Allocation *>(memory); }
// A barrier between dispatches: what was done to this memory so far is over.
void msl_memory_ordered(void *memory) {
    static_cast<msl::Allocation *>(memory)->ordered = msl::last_threadgroup_number();
}

// The caller frees it with msl_free.
char *msl_take_reports() { return strdup(msl::take_reports().c_str()); }
void msl_free(void *pointer) { free(pointer); }
uint64_t msl_launch_bytes() { return sizeof(msl::Launch); }
}
