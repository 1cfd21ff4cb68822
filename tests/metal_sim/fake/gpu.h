// The fake GPU: one thread that runs command buffers in the order of their commits, some time after each, and one that
// calls handlers. Commands arrive as plain data; the Objective-C objects are command_buffer.mm's and encoder.mm's.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "library.h"
#include "store.h"

namespace fake {

struct Pipeline {
    Function function;
    uint32_t max_threads;
};

struct Bound {
    std::shared_ptr<Store> store; // or
    std::vector<unsigned char> bytes;
    uint64_t offset = 0;
    uint32_t generation = 0; // of the encoder's pipeline when it was set
};

struct Fence {
    uint32_t passed = 0; // number of the last threadgroup before the update
};
struct Event {
    std::atomic<uint64_t> value{0};
};

struct Dispatch {
    std::shared_ptr<Pipeline> pipeline;
    std::array<Bound, msl::max_bindings> buffers;
    std::array<uint64_t, msl::max_bindings> threadgroup_bytes;
    msl::Extent grid, group;
    bool grid_of_threads;
};
struct Barrier {
    bool all;
    std::vector<std::shared_ptr<Store>> stores;
};
struct BeginEncoder {
    bool concurrent;
};
struct EndEncoder {};
struct UpdateFence {
    std::shared_ptr<Fence> fence;
};
struct WaitFence {
    std::shared_ptr<Fence> fence;
};
struct Copy {
    std::shared_ptr<Store> from, to;
    uint64_t from_offset, to_offset, bytes;
};
struct Fill {
    std::shared_ptr<Store> to;
    uint64_t offset, bytes;
    unsigned char value;
};
struct SignalEvent {
    std::shared_ptr<Event> event;
    uint64_t value;
};
struct WaitEvent {
    std::shared_ptr<Event> event;
    uint64_t value;
};
typedef std::variant<Dispatch, Barrier, BeginEncoder, EndEncoder, UpdateFence, WaitFence, Copy, Fill, SignalEvent, WaitEvent>
    Command;

// Of a command buffer. The callbacks run on the GPU's thread; they hold the command buffer.
struct Submission {
    std::vector<Command> commands;
    std::vector<std::shared_ptr<Store>> stores; // each once
    std::function<void()> scheduled;
    std::function<void(int error_code, const std::string &error_text)> completed; // 0: none
};

struct Failure {
    int code = 0; // MTLCommandBufferError
    std::string text;
};

// gpu.cpp: threads and the order of things.
void submit(std::unique_ptr<Submission> submission);
void call_later(std::function<void()> handler); // on the handlers' thread
bool on_handler_thread();
int unfinished(); // command buffers that are committed and not completed

// executor.cpp: runs the commands of one. `fraction` of 1 runs all.
class Executor {
  public:
    Executor(Submission &submission, uint32_t committed_after, uint32_t seed);
    Failure run(double fraction);
    void resume(Failure *failure); // the rest, after run(fraction < 1)

  private:
    Failure run_until(size_t end);
    void flush();
    void order_all(uint32_t number, bool tracked_only);
    Failure dispatch(const Dispatch &command);
    void run_command(const Command &command);

    Submission &submission_;
    uint32_t seed_;
    size_t next_ = 0;
    bool concurrent_ = false;
    std::vector<const Dispatch *> waiting_; // of a concurrent encoder, since the last barrier
    Failure failure_;
};

} // namespace fake
