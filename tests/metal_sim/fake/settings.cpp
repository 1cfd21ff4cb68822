#include "settings.h"

#include <cstdlib>
#include <map>
#include <mutex>

namespace fake {
namespace {

struct State {
    Settings settings;
    Counters counters;
    std::map<std::string, Number *> numbers;
    std::mutex mutex;
    std::string trace;

    State() {
        Settings &s = settings;
        const std::map<std::string, Number *> set = {
            {"check", &s.check}, {"fast_math", &s.fast_math}, {"randomize", &s.randomize},
            {"shuffle_reductions", &s.shuffle_reductions}, {"threads", &s.threads}, {"seed", &s.seed}, {"poison", &s.poison}, {"strict_bindings", &s.strict_bindings}, {"execute", &s.execute},
            {"delay_us", &s.delay_us}, {"max_threads", &s.max_threads}, {"fail_in", &s.fail_in},
            {"fail_code", &s.fail_code}, {"hang_in", &s.hang_in}, {"release_hung", &s.release_hung},
            {"residency_sets", &s.residency_sets}, {"max_buffer_length", &s.max_buffer_length},
            {"working_set", &s.working_set}, {"trace", &s.trace},
        };
        for (const auto &[name, number] : set) {
            std::string variable = "MUSER_METAL_SIM_";
            for (const char c : name) variable += static_cast<char>(toupper(c));
            if (const char *value = getenv(variable.c_str())) *number = strtoll(value, nullptr, 10);
        }
        Counters &c = counters;
        numbers = {
            {"command_buffers", &c.command_buffers}, {"encoders", &c.encoders}, {"dispatches", &c.dispatches},
            {"barriers", &c.barriers}, {"copies", &c.copies}, {"bound_bytes", &c.bound_bytes},
            {"set_bytes", &c.set_bytes}, {"allocated", &c.allocated}, {"threadgroups", &c.threadgroups},
            {"switches", &c.switches},
        };
        numbers.insert(set.begin(), set.end());
    }
};
State &state() {
    static State *all = new State; // never destroyed: the GPU's thread may outlive static objects
    return *all;
}

} // namespace

Settings &settings() { return state().settings; }
Counters &counters() { return state().counters; }

Number *find_number(const std::string &name) {
    const auto found = state().numbers.find(name);
    return found == state().numbers.end() ? nullptr : found->second;
}

void trace(const std::string &line) {
    if (!settings().trace) return;
    const std::lock_guard lock(state().mutex);
    state().trace += line + "\n";
}

std::string take_trace() {
    const std::lock_guard lock(state().mutex);
    std::string text;
    text.swap(state().trace);
    return text;
}

} // namespace fake
