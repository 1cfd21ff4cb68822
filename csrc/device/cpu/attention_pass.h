// Plans the attention of one layer over all rows of a pass: cuts the rows into blocks of one session, and
// the blocks' work over threads, by (block, kv head) or, for a few rows deep in their context, also by segment.
// Either way each query's segments are computed and merged alike (attention.h).
#pragma once

#include <span>
#include <vector>

#include "device/cpu/ops.h"
#include "device/cpu/pass.h"
#include "device/cpu/pass_state.h"
#include "device/device.h"

namespace muser::cpu {

class AttentionPlanner {
  public:
    AttentionPlanner(const OpKernels &ops, const PassState &state, Pass &pass) : ops_(ops), state_(state), pass_(pass) {}

    void begin() { blocks_.clear(); }
    // Records the steps that read `query` and the planes and write `attention`.
    void record(const AttentionSpec &spec);

  private:
    struct Block { // consecutive rows of one session
        int first_row, n_rows;
        int64_t first_segment, last_segment; // that any of its rows sees
    };
    struct Job { // one record() call
        AttentionSpec spec;
        uint32_t value_width;
        bool rotated; // the values are, and so the output before it is finished
        int task_heads, head_groups; // query heads of a task; tasks that cover the query heads of one kv head
        size_t first_block;
        int n_blocks;
    };
    struct Item { // one segment of one block and head group
        const Block *block;
        int kv_head, group;
        int64_t segment;
    };
    struct Wave { // the segments [first, first + count) of every block, counted from the block's own first
        int first, count;
    };

    void record_partial(const Job &job, int most_segments);
    Job make_job(const AttentionSpec &spec);
    void cut_blocks(Job &job, int task_rows);
    int wave_items(const Job &job, Wave wave) const;
    int segments_in(const Block &block, Wave wave) const;
    PositionRange visible(const Job &job, int row) const;

    void whole(const Job &job, int item, int thread) const;
    Item item_at(const Job &job, Wave wave, int index) const;
    const void *keys_of(const Job &job, const Item &item) const;
    void partial(const Job &job, Wave wave, const Item &item, const void *next, int thread) const;
    void merge(const Job &job, Wave wave, int row, int head, SoftmaxState merged) const;
    bool fill(SegmentTask &task, const Job &job, const Block &block, int kv_head, int group, int64_t segment, int thread,
              int &first_active) const;
    SoftmaxState slot(const Job &job, size_t index, int head) const;
    size_t partial_slot(Wave wave, const Block &block, int row, int64_t segment) const;
    void write_output(const Job &job, SoftmaxState state, int row, int head, int thread) const;
    const PlaneView &plane(const AttentionSpec &spec, int row) const;
    const Block &block_of(const Job &job, int row) const;

    const OpKernels &ops_;
    const PassState &state_;
    Pass &pass_;
    std::vector<Block> blocks_; // of all jobs of the pass
};

} // namespace muser::cpu
