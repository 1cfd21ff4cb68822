// For Python, through ctypes: settings and counters by name, findings, objects that live.
#include <cstdlib>
#include <cstring>

#include "../objc/abi.h"
#include "../runtime/reports.h"
#include "settings.h"

extern "C" {

bool metal_sim_set(const char *name, int64_t value) {
    fake::Number *number = fake::find_number(name);
    if (!number) return false;
    *number = value;
    number->notify_all();
    return true;
}
bool metal_sim_get(const char *name, int64_t *value) {
    const fake::Number *number = fake::find_number(name);
    if (number) *value = *number;
    return number != nullptr;
}
void metal_sim_clear_counters() {
    for (const char *name : {"command_buffers", "encoders", "dispatches", "barriers", "copies", "bound_bytes", "set_bytes",
                             "threadgroups", "switches"})
        *fake::find_number(name) = 0;
}
char *metal_sim_take_trace() { return strdup(fake::take_trace().c_str()); } // the caller frees it with msl_free

void msl_objc_report(const char *text) { msl::report(text); }
}
