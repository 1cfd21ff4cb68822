// Runs the commands of a command buffer, and tells the memory checker what their order promises.
//
// Between two barriers of a concurrent encoder nothing is promised, so the dispatches there run in a random order, and
// an access of one that meets another's is a race.
#include <algorithm>
#include <cstring>
#include <random>

#include "../runtime/reports.h"
#include "gpu.h"
#include "settings.h"

namespace fake {
namespace {

std::string source_of(const Dispatch &command) { return command.pipeline->function.kernel->name; }

} // namespace

Executor::Executor(Submission &submission, uint32_t committed_after, uint32_t seed) : submission_(submission), seed_(seed) {
    for (const auto &store : submission_.stores) store->memory.ordered = std::max(store->memory.ordered, committed_after);
    for (const Command &command : submission_.commands) {
        const auto *dispatch = std::get_if<Dispatch>(&command);
        if (!dispatch) continue;
        const msl::Kernel &kernel = *dispatch->pipeline->function.kernel;
        for (int i = 0; i < kernel.parameter_count; ++i) {
            const msl::Parameter &p = kernel.parameters[i];
            if (p.source == msl::Source::buffer && p.writable && dispatch->buffers[static_cast<size_t>(p.index)].store)
                dispatch->buffers[static_cast<size_t>(p.index)].store->memory.written = true;
        }
    }
}

Failure Executor::run(double fraction) {
    return run_until(static_cast<size_t>(static_cast<double>(submission_.commands.size()) * fraction));
}

void Executor::resume(Failure *failure) { *failure = run_until(submission_.commands.size()); }

Failure Executor::run_until(size_t end) {
    for (; next_ < end && !failure_.code; ++next_) {
        if (const auto *dispatch_command = std::get_if<Dispatch>(&submission_.commands[next_])) {
            waiting_.push_back(dispatch_command);
            if (!concurrent_) {
                flush();
                order_all(msl::last_threadgroup_number(), false);
            }
        } else {
            flush();
            run_command(submission_.commands[next_]);
        }
    }
    if (end == submission_.commands.size()) flush();
    return failure_;
}

void Executor::flush() {
    std::mt19937 random(seed_ + static_cast<uint32_t>(next_));
    if (settings().randomize) std::shuffle(waiting_.begin(), waiting_.end(), random);
    for (const Dispatch *command : waiting_)
        if (!failure_.code) failure_ = dispatch(*command);
    waiting_.clear();
}

void Executor::order_all(uint32_t number, bool tracked_only) {
    for (const auto &store : submission_.stores)
        if (!tracked_only || !store->untracked) store->memory.ordered = std::max(store->memory.ordered, number);
}

void Executor::run_command(const Command &command) {
    const uint32_t now = msl::last_threadgroup_number();
    if (const auto *begin = std::get_if<BeginEncoder>(&command)) {
        concurrent_ = begin->concurrent;
    } else if (std::holds_alternative<EndEncoder>(command)) {
        order_all(now, true); // what Metal tracks, it orders between encoders
    } else if (const auto *barrier = std::get_if<Barrier>(&command)) {
        if (barrier->all) order_all(now, false);
        for (const auto &store : barrier->stores) store->memory.ordered = now;
    } else if (const auto *update = std::get_if<UpdateFence>(&command)) {
        update->fence->passed = now;
    } else if (const auto *wait = std::get_if<WaitFence>(&command)) {
        order_all(wait->fence->passed, false);
    } else if (const auto *copy = std::get_if<Copy>(&command)) {
        if (settings().execute)
            memmove(copy->to->memory.base + copy->to_offset, copy->from->memory.base + copy->from_offset, copy->bytes);
    } else if (const auto *fill = std::get_if<Fill>(&command)) {
        if (settings().execute) memset(fill->to->memory.base + fill->offset, fill->value, fill->bytes);
    } else if (const auto *signal = std::get_if<SignalEvent>(&command)) {
        signal->event->value = signal->value;
        signal->event->value.notify_all();
    } else if (const auto *event = std::get_if<WaitEvent>(&command)) {
        for (uint64_t value; (value = event->event->value) < event->value;) event->event->value.wait(value);
        order_all(now, false);
    }
}

Failure Executor::dispatch(const Dispatch &command) {
    if (!settings().execute) return {};
    msl::Launch launch{};
    const Function &function = command.pipeline->function;
    launch.kernel = function.kernel;
    launch.constants = function.library->constants;
    for (size_t i = 0; i < command.buffers.size(); ++i) {
        const Bound &bound = command.buffers[i];
        if (bound.store) {
            if (bound.store->released)
                msl::report(source_of(command) + ": buffer(" + std::to_string(i) + ") was released before it was used");
            if (settings().check && !bound.store->is_mapped()) {
                msl::report(source_of(command) + ": buffer(" + std::to_string(i) + ") is memory that is no longer mapped");
                return {3, "page fault"};
            }
            launch.buffers[i] = {bound.store->memory.base + bound.offset, bound.store->memory.bytes - bound.offset,
                                 &bound.store->memory};
        } else if (!bound.bytes.empty()) {
            launch.buffers[i] = {const_cast<unsigned char *>(bound.bytes.data()), bound.bytes.size(), nullptr};
        }
        launch.threadgroup_bytes[i] = command.threadgroup_bytes[i];
    }
    std::vector<msl::ConstantValue> values;
    for (const ConstantStorage &c : function.values) values.push_back({c.index, c.data_type, c.value.data()});
    launch.values = values.data();
    launch.value_count = static_cast<int32_t>(values.size());
    launch.grid = command.grid;
    launch.group = command.group;
    launch.grid_of_threads = command.grid_of_threads;
    launch.options = {seed_, settings().check != 0, settings().randomize != 0, settings().shuffle_reductions != 0,
                      static_cast<uint8_t>(settings().threads)};
    if (launch.options.shuffle_reductions) launch.options.seed = static_cast<uint32_t>(settings().seed);
    msl::Statistics statistics{};
    const int found = msl::dispatch(launch, &statistics);
    counters().threadgroups += static_cast<int64_t>(statistics.threadgroups);
    counters().switches += static_cast<int64_t>(statistics.switches);
    if (found) return {1, "the simulator's checks found a fault in " + source_of(command)};
    return {};
}

} // namespace fake
