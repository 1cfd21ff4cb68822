// The memory checker: bounds, alignment, races and uninitialised threadgroup memory, access by access.
#include <string>

#include "fiber.h"
#include "module.h"
#include "reports.h"
#include "worker.h"

namespace msl {
namespace {

// Whether `then` happened before `now`, for certain.
bool ordered(const Access &then, const Access &now, uint32_t mark) {
    if (then.group <= mark) return true;
    if (then.group != now.group || then.spread == Spread::dispatch) return false;
    if (then.spread == Spread::one_thread && then.thread == now.thread) return true;
    if (then.epoch < now.epoch) return true;
    const bool one_simd_group = then.spread != Spread::threadgroup && then.thread / simd_width == now.thread / simd_width;
    return one_simd_group && then.simd_epoch < now.simd_epoch;
}

// One record for both: as late as the later one, as wide as they are apart.
Access join(const Access &then, Access now) {
    Spread apart = Spread::dispatch;
    if (then.group == now.group) {
        apart = Spread::threadgroup;
        if (then.thread / simd_width == now.thread / simd_width)
            apart = then.thread == now.thread ? Spread::one_thread : Spread::simd_group;
    }
    now.spread = then.spread > apart ? then.spread : apart;
    return now;
}

} // namespace

bool Worker::is_own(const unsigned char *address) const {
    if (address >= region_ && address < arena_) return true;                   // lanes, slots, stacks
    if (address >= module_begin_ && address < module_end_) return true;        // constant tables, function constants
    const auto *me = reinterpret_cast<const unsigned char *>(this);
    if (address >= me && address < me + sizeof *this) return true;             // the threadgroup's description
    return address == reinterpret_cast<const unsigned char *>(&current_lane) ||
           address == reinterpret_cast<const unsigned char *>(&current_group);
}

int Worker::find_buffer(const unsigned char *address, uint64_t bytes) {
    for (int step = 0; step < max_bindings; ++step) {
        const int i = (last_buffer_ + step) % max_bindings;
        const Binding &buffer = launch_->buffers[i];
        if (buffer.base && address >= buffer.base && address + bytes <= buffer.base + buffer.bytes) return last_buffer_ = i;
    }
    return -1;
}

const Worker::Variable *Worker::find_variable(const unsigned char *address, uint64_t bytes) const {
    for (const Variable &variable : variables_)
        if (address >= variable.begin && address + bytes <= variable.begin + variable.bytes) return &variable;
    return nullptr;
}

std::string Worker::name_of(const unsigned char *address) const {
    if (address >= arena_ && address < arena_ + arena_bytes) return "threadgroup memory";
    for (int i = 0; i < max_bindings; ++i) {
        const Binding &buffer = launch_->buffers[i];
        if (buffer.base && address >= buffer.base && address < buffer.base + buffer.bytes)
            return "buffer(" + std::to_string(i) + ")";
    }
    return "memory that is not bound";
}

bool Worker::find(unsigned char *address, uint64_t bytes, Kind kind, Found &found) {
    if (address >= arena_ && address < arena_ + arena_bytes) {
        found = {&arena_shadow_, static_cast<uint64_t>(address - arena_), number_ - 1, 0};
        return find_variable(address, bytes) != nullptr;
    }
    const int index = find_buffer(address, bytes);
    if (index < 0) return false;
    Allocation *memory = launch_->buffers[index].memory;
    if (!memory || (!memory->written && kind == Kind::read))
        found = {nullptr, 0, 0, 1};
    else
        found = {&memory->shadow, static_cast<uint64_t>(address - memory->base), memory->ordered, 1};
    return true;
}

const char *Worker::check_cell(Cell &cell, Kind kind, Access now, const Found &found) const {
    const bool after_write = cell.write.group && ordered(cell.write, now, found.ordered);
    if (kind == Kind::read) {
        if (found.space == 0 && cell.write.group != now.group) return "uninitialised read of";
        if (cell.write.group && !after_write) return "race: unordered read after write of";
        const bool fresh = !cell.read.group || ordered(cell.read, now, found.ordered);
        cell.read = fresh ? now : join(cell.read, now);
        return nullptr;
    }
    const bool both_atomic = kind == Kind::atomic && cell.write.atomic;
    if (kind == Kind::atomic && found.space == 0 && cell.write.group != now.group) return "uninitialised atomic on";
    if (cell.write.group && !after_write && !both_atomic) return "race: unordered write after write of";
    if (cell.read.group && !ordered(cell.read, now, found.ordered)) return "race: unordered write after read of";
    now.atomic = kind == Kind::atomic;
    cell.write = both_atomic && !after_write ? join(cell.write, now) : now;
    cell.read = {};
    return nullptr;
}

void Worker::access(unsigned char *address, uint64_t bytes, Kind kind, const Site *site, const void *code) {
    if (is_own(address)) return;
    Found found{};
    const char *complaint = nullptr;
    bool fatal = true;
    if (!find(address, bytes, kind, found)) {
        complaint = kind == Kind::read ? "out-of-bounds read of" : "out-of-bounds write of";
    } else if ((bytes & (bytes - 1)) == 0 && reinterpret_cast<uintptr_t>(address) % bytes && bytes <= 16) {
        complaint = "misaligned access of";
    } else if (kind != Kind::read && !found.shadow) {
        complaint = "write to constant";
    } else if (found.shadow) {
        fatal = false;
        Access now;
        now.group = number_;
        now.thread = static_cast<uint16_t>(current_lane->thread);
        now.epoch = static_cast<uint16_t>(epoch_[found.space]);
        now.simd_epoch = static_cast<uint16_t>(simd_epoch_[current_lane->simd_index][found.space]);
        for (uint64_t i = 0; i < bytes && !complaint; ++i)
            complaint = check_cell(found.shadow->at(found.offset + i), kind, now, found);
    }
    if (!complaint) return;
    const std::string where = site ? std::string(site->file) + ":" + std::to_string(site->line)
                                   : place_in_module(static_cast<const char *>(code) - 1);
    report(std::string(launch_->kernel->name) + ": " + complaint + " " + name_of(address) + " at " + where);
    if (fatal || ++complaints_ == 64) {
        stopped_ = true;
        void *unused;
        msl_switch(&unused, scheduler_);
    }
}

} // namespace msl
