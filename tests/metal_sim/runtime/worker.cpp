#include "worker.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "fiber.h"
#include "module.h"
#include "reports.h"

namespace msl {

thread_local Lane *current_lane;
thread_local Threadgroup *current_group;

namespace {

std::string text(const Site &site) { return std::string(site.file) + ":" + std::to_string(site.line); }

} // namespace

// Few bytes are left for initial-exec variables of libraries that are loaded late: pointers alone.
Worker &Worker::of_this_thread() {
    static thread_local Worker *worker __attribute__((tls_model("initial-exec")));
    if (!worker) worker = new_of_this_thread();
    return *worker;
}

Worker *Worker::new_of_this_thread() {
    static thread_local std::unique_ptr<Worker> owner;
    owner = std::make_unique<Worker>();
    return owner.get();
}

Worker::Worker() : arena_shadow_(arena_bytes) {
    const size_t lanes = (max_threads * sizeof(Lane) + 4095) / 4096 * 4096;
    const size_t groups = (max_threads / simd_width * sizeof(SimdGroup) + 4095) / 4096 * 4096;
    region_bytes_ = lanes + groups + max_threads * stack_bytes + arena_bytes;
    void *mapped = mmap(nullptr, region_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) __builtin_trap();
    region_ = static_cast<unsigned char *>(mapped);
    lanes_ = reinterpret_cast<Lane *>(region_);
    simd_groups_ = reinterpret_cast<SimdGroup *>(region_ + lanes);
    stacks_ = region_ + lanes + groups;
    arena_ = stacks_ + max_threads * stack_bytes;
    for (uint32_t i = 0; i < max_threads; ++i) mprotect(stacks_ + i * stack_bytes, 4096, PROT_NONE); // overflow faults
}

Worker::~Worker() { munmap(region_, region_bytes_); }

void Worker::begin(const Launch &launch, Extent groups, Extent threads) {
    launch_ = &launch;
    random.seed(launch.options.seed);
    group_.groups = groups;
    group_.threads = threads;
    group_.full_size = launch.group;
    for (int i = 0; i < max_bindings; ++i) pointers_[i] = launch.buffers[i].base;
    module_of(reinterpret_cast<const void *>(launch.kernel->call), &module_begin_, &module_end_);
    choose_freedoms();
    statistics_ = {};
    complaints_ = 0;
    stopped_ = false;
}

// What Metal leaves open: the order of a reduction, and which elements of a matrix a lane holds.
void Worker::choose_freedoms() {
    std::iota(group_.reduction_order, group_.reduction_order + simd_width, uint8_t{0});
    group_.reductions_shuffled = launch_->options.shuffle_reductions;
    if (group_.reductions_shuffled) std::shuffle(group_.reduction_order, group_.reduction_order + simd_width, random);
    for (int lane = 0; lane < simd_width; ++lane) {
        const int quad = lane / 4, row = (quad & 4) + lane / 2 % 4, column = (quad & 2) * 2 + lane % 2 * 2;
        for (int k = 0; k < 2; ++k) group_.matrix_place[2 * lane + k] = static_cast<uint8_t>(row * 8 + column + k);
    }
    if (launch_->options.randomize) std::shuffle(group_.matrix_place, group_.matrix_place + 64, random);
}

void Worker::prepare_lanes(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        Lane &lane = lanes_[i];
        lane.stack_pointer = nullptr;
        lane.group = &simd_groups_[i / simd_width];
        lane.lane = i % simd_width;
        lane.simd_index = i / simd_width;
        lane.thread = i;
        lane.turn = 0;
        lane.position = {i % group_.size.x, i / group_.size.x % group_.size.y, i / (group_.size.x * group_.size.y)};
        lane.state = LaneState::ready;
    }
}

void Worker::enter(Lane &lane, void **leaving) {
    if (!lane.stack_pointer) {
        unsigned char *end = stacks_ + (lane.thread + 1) * stack_bytes;
        // Stacks start at different cache lines: 64 KiB apart they would all map to the same few.
        end -= 64 + lane.thread % 32 * 832 + lane.thread / 32 % 8 * 128;
        lane.stack_pointer = make_fiber(end, &lane_entry);
    }
    current_lane = &lane;
    ++statistics_.switches;
    msl_switch(leaving, lane.stack_pointer);
}

bool Worker::run(Extent position, Extent size) {
    const uint32_t count = size.x * size.y * size.z, simd_groups = (count + simd_width - 1) / simd_width;
    number_ = next_threadgroup_number();
    group_.position = position;
    group_.size = size;
    group_.simd_groups = simd_groups;
    variables_.clear();
    arena_used_ = 0;
    epoch_[0] = epoch_[1] = 1;
    memset(simd_epoch_, 0, sizeof simd_epoch_);
    for (int i = 0; i < max_bindings; ++i) {
        const uint64_t bytes = launch_->threadgroup_bytes[i];
        threadgroup_[i] = bytes ? threadgroup_memory(-1 - i, bytes) : nullptr;
    }
    if (stopped_) return false;
    prepare_lanes(count);
    current_group = &group_;

    std::iota(lane_order_, lane_order_ + simd_width, uint8_t{0});
    if (launch_->options.randomize) std::shuffle(lane_order_, lane_order_ + simd_width, random);
    simd_order_.resize(simd_groups);
    std::iota(simd_order_.begin(), simd_order_.end(), uint8_t{0});
    bool more = true;
    while (more) {
        if (launch_->options.randomize) std::shuffle(simd_order_.begin(), simd_order_.end(), random);
        for (const uint32_t g : simd_order_)
            if (!run_simd_group(g, g * simd_width, std::min(count, (g + 1) * simd_width))) break;
        more = !stopped_ && release_barrier(count);
    }
    current_lane = nullptr;
    ++statistics_.threadgroups;
    statistics_.threadgroup_bytes = std::max(statistics_.threadgroup_bytes, arena_used_);
    return !stopped_;
}

// Until every lane of the SIMD-group has ended or waits at a threadgroup barrier.
bool Worker::run_simd_group(uint32_t index, uint32_t first, uint32_t end) {
    first_ = first;
    end_ = end;
    do {
        // Another order at every step under the checker, for a whole threadgroup where it must be fast.
        if (launch_->options.randomize && launch_->options.check) std::shuffle(lane_order_, lane_order_ + simd_width, random);
        step_ = 0;
        if (Lane *lane = next_lane()) enter(*lane, &scheduler_); // and from there straight to the others
        if (stopped_) return false;
    } while (release_simd_group(index, first, end));
    return !stopped_;
}

// Of those that can run in this step; null after the last.
Lane *Worker::next_lane() {
    while (step_ < simd_width) {
        const uint32_t i = first_ + lane_order_[step_++];
        if (i < end_ && lanes_[i].state == LaneState::ready) return &lanes_[i];
    }
    return nullptr;
}

bool Worker::release_simd_group(uint32_t index, uint32_t first, uint32_t end) {
    const Lane *waiting = nullptr, *elsewhere = nullptr;
    uint32_t active = 0;
    for (uint32_t i = first; i < end; ++i) {
        const Lane &lane = lanes_[i];
        if (lane.state == LaneState::done) continue;
        active |= 1u << (i - first);
        if (lane.state != LaneState::group_barrier && !waiting) waiting = &lane;
    }
    if (!waiting) return false;
    for (uint32_t i = first; i < end; ++i) {
        const Lane &lane = lanes_[i];
        const bool same = lane.site.line == waiting->site.line && lane.site.column == waiting->site.column &&
                          lane.state == waiting->state;
        if (lane.state != LaneState::done && !same) elsewhere = &lane;
    }
    if (elsewhere)
        return fail("divergent SIMD-group operation: lanes wait at " + text(waiting->site) + " and at " +
                    text(elsewhere->site));
    SimdGroup &group = simd_groups_[index];
    const uint32_t turn = waiting->turn ^ 1; // taken, and already advanced
    group.active[turn] = active;
    group.computed[turn] = false;
    if (waiting->state == LaneState::simd_barrier) {
        simd_epoch_[index][0] += waiting->barrier_flags >> 1 & 1;
        simd_epoch_[index][1] += waiting->barrier_flags & 1;
    }
    for (uint32_t i = first; i < end; ++i)
        if (lanes_[i].state != LaneState::done) lanes_[i].state = LaneState::ready;
    return true;
}

// False: all lanes have ended, or they wait at different places.
bool Worker::release_barrier(uint32_t count) {
    const Lane *waiting = nullptr;
    uint32_t live = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const Lane &lane = lanes_[i];
        if (lane.state == LaneState::done) continue;
        ++live;
        if (!waiting) waiting = &lane;
        if (lane.site.line != waiting->site.line || lane.site.column != waiting->site.column)
            return fail("threads wait at different barriers: " + text(waiting->site) + " and " + text(lane.site));
    }
    if (!live) return false;
    if (live != count)
        return fail("threadgroup_barrier at " + text(waiting->site) + " is not reached by " +
                    std::to_string(count - live) + " threads that have ended");
    epoch_[0] += waiting->barrier_flags >> 1 & 1;
    epoch_[1] += waiting->barrier_flags & 1;
    for (uint32_t i = 0; i < count; ++i) lanes_[i].state = LaneState::ready;
    return true;
}

void Worker::lane_entry() {
    Worker &worker = of_this_thread();
    void *unused;
    for (;;) {
        worker.launch_->kernel->call(worker.pointers_, worker.threadgroup_);
        current_lane->state = LaneState::done;
        Lane *next = worker.next_lane();
        if (!next) break;
        if (next->stack_pointer) worker.enter(*next, &unused);
        current_lane = next; // has not begun, and may have this stack
    }
    msl_switch(&unused, worker.scheduler_);
    __builtin_trap();
}

void Worker::wait(LaneState state, const Site &site, uint32_t flags) {
    Lane *me = current_lane;
    me->state = state;
    me->site = site;
    me->barrier_flags = flags;
    if (Lane *next = next_lane())
        enter(*next, &me->stack_pointer);
    else
        msl_switch(&me->stack_pointer, scheduler_);
}

void *Worker::threadgroup_memory(int id, uint64_t bytes) {
    for (const Variable &variable : variables_)
        if (variable.id == id) return variable.begin;
    const uint64_t begin = (arena_used_ + 15) / 16 * 16;
    if (begin + bytes > threadgroup_limit) {
        const std::string what = "threadgroup memory of " + std::string(launch_->kernel->name) + " is over 32 KiB";
        if (current_lane) stop(what);
        fail(what);
        return arena_;
    }
    // A gap after each variable, so that one past its end is nobody's; it does not count against the limit.
    unsigned char *at = arena_ + begin + 64 * variables_.size();
    memset(at, 0xFF, bytes); // NaN, until it is written
    variables_.push_back({id, at, bytes});
    arena_used_ = begin + bytes;
    return at;
}

bool Worker::fail(const std::string &what) {
    report(std::string(launch_->kernel->name) + ": " + what);
    stopped_ = true;
    return false;
}

void Worker::stop(const std::string &what) {
    fail(what);
    void *unused;
    msl_switch(&unused, scheduler_);
    __builtin_trap();
}

extern "C" void msl_wait(int state, const Site *site, uint32_t barrier_flags) {
    Worker::of_this_thread().wait(static_cast<LaneState>(state), *site, barrier_flags);
}
extern "C" void *msl_threadgroup_memory(int id, uint64_t bytes) {
    return Worker::of_this_thread().threadgroup_memory(id, bytes);
}
extern "C" void msl_stop_at(const char *what, const Site *site) {
    Worker::of_this_thread().stop(std::string(what) + " at " + text(*site));
}
extern "C" void msl_atomic_access(const void *address, uint32_t bytes, const Site *site) {
    Worker &worker = Worker::of_this_thread();
    if (worker.checking())
        worker.access(static_cast<unsigned char *>(const_cast<void *>(address)), bytes, Worker::Kind::atomic, site, nullptr);
}

} // namespace msl
