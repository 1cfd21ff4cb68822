// A dispatch: checks what is bound, sets the function constants, and runs every threadgroup of the grid.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "launch.h"
#include "memory.h"
#include "reports.h"
#include "team.h"
#include "worker.h"

namespace msl {
namespace {

std::atomic<uint32_t> threadgroup_number{0};

std::string arguments_problem(const Launch &launch, const Parameter &parameter) {
    const int i = parameter.index;
    if (parameter.source == Source::threadgroup)
        return launch.threadgroup_bytes[i] ? "" : "threadgroup(" + std::to_string(i) + ") has no length";
    if (parameter.source != Source::buffer) return "";
    const Binding &buffer = launch.buffers[i];
    const std::string name = "buffer(" + std::to_string(i) + ")";
    if (!buffer.base) return parameter.optional ? "" : name + " is not bound";
    if (buffer.bytes < parameter.bytes)
        return name + " has " + std::to_string(buffer.bytes) + " bytes, the kernel's type has " + std::to_string(parameter.bytes);
    if (reinterpret_cast<uintptr_t>(buffer.base) % parameter.alignment)
        return name + " is not aligned to " + std::to_string(parameter.alignment) + " bytes";
    if (parameter.writable && !buffer.memory) return name + " is bound to bytes, and the kernel can write it";
    return "";
}

std::string launch_problem(const Launch &launch) {
    const uint64_t threads = uint64_t{launch.group.x} * launch.group.y * launch.group.z;
    if (!threads || !launch.grid.x || !launch.grid.y || !launch.grid.z) return "an empty grid or threadgroup";
    const uint64_t limit = launch.kernel->max_threads ? launch.kernel->max_threads : max_threads;
    if (threads > limit) return std::to_string(threads) + " threads a threadgroup, " + std::to_string(limit) + " at most";
    for (int i = 0; i < launch.kernel->parameter_count; ++i)
        if (std::string problem = arguments_problem(launch, launch.kernel->parameters[i]); !problem.empty()) return problem;
    return "";
}

std::string set_constants(const Launch &launch) {
    for (const FunctionConstant *constant = launch.constants; constant && constant->name; ++constant) {
        *constant->is_set = false;
        for (int i = 0; i < launch.value_count; ++i) {
            const ConstantValue &value = launch.values[i];
            if (value.index != constant->index) continue;
            if (value.data_type != constant->data_type)
                return "function constant " + std::string(constant->name) + " is given another type than its own";
            memcpy(constant->value, value.value, static_cast<size_t>(constant->size));
            *constant->is_set = true;
        }
    }
    return "";
}

uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// The last threadgroups of a grid of threads may be smaller.
Extent size_at(const Launch &launch, Extent p) {
    const Extent g = launch.group;
    if (!launch.grid_of_threads) return g;
    return {std::min(g.x, launch.grid.x - p.x * g.x), std::min(g.y, launch.grid.y - p.y * g.y),
            std::min(g.z, launch.grid.z - p.z * g.z)};
}

} // namespace

uint32_t last_threadgroup_number() { return threadgroup_number; }
uint32_t next_threadgroup_number() { return ++threadgroup_number; }

int dispatch(const Launch &launch, Statistics *statistics) {
    static std::mutex one_at_a_time; // function constants are variables of the library
    const std::lock_guard lock(one_at_a_time);
    const int before = report_count();
    std::string problem = launch_problem(launch);
    if (problem.empty()) problem = set_constants(launch);
    if (!problem.empty()) {
        report(std::string(launch.kernel->name) + ": " + problem);
        return 1;
    }
    const Extent g = launch.group;
    Extent groups = launch.grid, threads = launch.grid;
    if (launch.grid_of_threads)
        groups = {divide_up(launch.grid.x, g.x), divide_up(launch.grid.y, g.y), divide_up(launch.grid.z, g.z)};
    else
        threads = {launch.grid.x * g.x, launch.grid.y * g.y, launch.grid.z * g.z};
    for (int i = 0; i < launch.kernel->parameter_count; ++i) {
        const Parameter &p = launch.kernel->parameters[i];
        if (p.source == Source::buffer && p.writable && launch.buffers[p.index].base)
            launch.buffers[p.index].memory->written = true;
    }
    std::vector<uint32_t> order(size_t{groups.x} * groups.y * groups.z);
    std::iota(order.begin(), order.end(), 0u);
    if (launch.options.randomize) std::shuffle(order.begin(), order.end(), std::mt19937(launch.options.seed));
    std::atomic<size_t> next{0};
    std::mutex totals;
    Statistics total{};
    const uint32_t team = launch.options.check || order.size() < 8 ? 1 : std::max<uint32_t>(1, launch.options.threads);
    run_on_threads(team, [&] {
        Worker &worker = Worker::of_this_thread();
        worker.begin(launch, groups, threads);
        for (size_t at; (at = next++) < order.size();) {
            const uint32_t i = order[at];
            const Extent position{i % groups.x, i / groups.x % groups.y, i / (groups.x * groups.y)};
            if (!worker.run(position, size_at(launch, position))) next = order.size();
        }
        const std::lock_guard totals_lock(totals);
        total.threadgroups += worker.statistics().threadgroups;
        total.switches += worker.statistics().switches;
        total.threadgroup_bytes = std::max(total.threadgroup_bytes, worker.statistics().threadgroup_bytes);
        worker.end();
    });
    if (statistics) *statistics = total;
    return report_count() - before;
}

} // namespace msl
