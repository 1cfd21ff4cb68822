// The two ways to share attention among threads, and the bookkeeping of partial results.
#include "device/cpu/attention_pass.h"

#include <algorithm>

#include "device/cpu/kv_planes.h"

namespace muser::cpu {

namespace {

constexpr int kMaxSplitRows = 16; // more rows than this are work enough without cutting their contexts
constexpr int kItemsPerThread = 4; // that even out different lengths
constexpr int kRunsPerThread = 2;  // of segments that follow each other
constexpr size_t kMergedAtOnce = 16384; // floats of partial states that one thread merges in about a microsecond

int64_t segment_of(int64_t position) { return position / kSegmentKeys; }

} // namespace

PositionRange AttentionPlanner::visible(const Job &job, int row) const {
    return visible_keys(state_.rows[row].position, job.spec.window);
}

const PlaneView &AttentionPlanner::plane(const AttentionSpec &spec, int row) const {
    return static_cast<const KvPlanes *>(state_.rows[row].kv)->plane(spec.plane);
}

void AttentionPlanner::write_output(const Job &job, SoftmaxState state, int row, int head, int thread) const {
    float *out = state_.act(Act::attention, row, thread) + size_t(head) * job.spec.head_dim;
    ops_.finish_attention(state, out, job.spec.head_dim);
    if (job.rotated)
        ops_.rotate(out, job.spec.head_dim);
}

AttentionPlanner::Job AttentionPlanner::make_job(const AttentionSpec &spec) {
    const int heads = static_cast<int>(spec.n_heads / spec.n_kv_heads); // query heads of one kv head
    Job job{};
    job.spec = spec;
    job.value_width = (spec.head_dim + 15) / 16 * 16;
    job.rotated = plane(spec, 0).type == KvType::q8_0; // as the planes of all sessions
    job.task_heads = std::min(heads, kMaxTaskHeads);
    job.head_groups = (heads + job.task_heads - 1) / job.task_heads;
    cut_blocks(job, std::min(kMaxTaskRows, kMaxTaskQueries / job.task_heads));
    return job;
}

void AttentionPlanner::cut_blocks(Job &job, int task_rows) {
    job.first_block = blocks_.size();
    const int n = state_.n_rows();
    for (int first = state_.first_row(); first < n;) {
        int end = first + 1;
        while (end < n && end - first < task_rows && state_.rows[end].kv == state_.rows[first].kv)
            ++end;
        blocks_.push_back({first, end - first, segment_of(visible(job, first).first), segment_of(visible(job, end - 1).last)});
        first = end;
    }
    job.n_blocks = static_cast<int>(blocks_.size() - job.first_block);
}

int AttentionPlanner::segments_in(const Block &block, Wave wave) const {
    const int all = static_cast<int>(block.last_segment - block.first_segment) + 1;
    return std::clamp(all - wave.first, 0, wave.count);
}

int AttentionPlanner::wave_items(const Job &job, Wave wave) const {
    int segments = 0;
    for (int b = 0; b < job.n_blocks; ++b)
        segments += segments_in(blocks_[job.first_block + b], wave);
    return segments * static_cast<int>(job.spec.n_kv_heads) * job.head_groups;
}

void AttentionPlanner::record(const AttentionSpec &spec) {
    if (plane(spec, 0).type == KvType::q8_0)
        pass_.add_rows(state_.wanted_rows(), [this, spec, base = state_.first_row()](int first, int last, int) {
            for (int row = base + first; row < base + last; ++row) // as the keys were, when they were stored
                for (uint32_t head = 0; head < spec.n_heads; ++head)
                    ops_.rotate(state_.workspace.row(Act::query, row) + size_t{head} * spec.head_dim, spec.head_dim);
        });
    const Job job = make_job(spec);
    const int tasks = job.n_blocks * static_cast<int>(spec.n_kv_heads) * job.head_groups;
    int most_segments = 0;
    for (int b = 0; b < job.n_blocks; ++b)
        most_segments = std::max(most_segments, segments_in(blocks_[job.first_block + b], {0, INT32_MAX}));

    const bool enough = most_segments == 1 || tasks >= kItemsPerThread * pass_.threads();
    if (!state_.few() && (state_.n_rows() > kMaxSplitRows || enough)) // also of the last row alone of many
        pass_.add(tasks, 1, [this, job](int first, int last, int thread) {
            for (int i = first; i < last; ++i)
                whole(job, i, thread);
        });
    else
        record_partial(job, most_segments);
}

// Each (block, kv head, segment) is an item of its own, and the partial states are merged afterwards, row by row
// (where that is little work, with what follows) or, in between waves, shared out by heads.
void AttentionPlanner::record_partial(const Job &job, int most_segments) {
    const int rows = state_.n_rows(), heads = static_cast<int>(job.spec.n_heads);
    // The first `rows` slots hold each row's merged state, the others one wave of partial states.
    const size_t slot_floats = size_t{job.spec.n_heads} * (job.value_width + 2);
    const int slots = static_cast<int>(state_.workspace.partial_floats() / slot_floats);
    const int per_wave = (slots - rows) / rows;
    const size_t merged_floats = slot_floats * static_cast<size_t>(rows) * static_cast<size_t>(most_segments);
    pass_.flush_everywhere(); // of an attention right before this one, whose states these would overwrite
    const bool at_once = most_segments <= per_wave && merged_floats <= kMergedAtOnce;
    for (int first = 0; first < most_segments; first += per_wave) {
        const Wave wave{first, std::min(per_wave, most_segments - first)};
        // Runs of items: a thread that knows what it reads next can fetch it while it works.
        const int items = wave_items(job, wave);
        pass_.add(items, items / (kRunsPerThread * pass_.threads()), [this, job, wave](int begin, int end, int thread) {
            for (int i = begin; i < end; ++i) {
                const void *next = i + 1 < end ? keys_of(job, item_at(job, wave, i + 1)) : nullptr;
                partial(job, wave, item_at(job, wave, i), next, thread);
            }
        });
        if (!at_once)
            pass_.add(rows * heads, heads / job.task_heads, [this, job, wave, heads](int begin, int end, int) {
                for (int i = begin; i < end; ++i)
                    merge(job, wave, i / heads, i % heads, slot(job, i / heads, i % heads));
            });
    }
    const Wave only{0, at_once ? most_segments : 0};
    const auto finish = [this, job, only, heads](int begin, int end, int thread) {
        const ThreadScratch &s = state_.workspace.scratch(thread);
        for (int row = begin; row < end; ++row)
            for (int head = 0; head < heads; ++head) {
                SoftmaxState merged{s.merged_max, s.merged_sum, s.merged_out};
                if (only.count > 0)
                    merge(job, only, row, head, merged);
                else
                    merged = slot(job, row, head);
                write_output(job, merged, row, head, thread);
            }
    };
    if (state_.few())
        pass_.add_everywhere(rows, finish);
    else
        pass_.add_rows(rows, finish);
}

// The rows of the block that see something of the segment are consecutive; false where there are none.
bool AttentionPlanner::fill(SegmentTask &task, const Job &job, const Block &block, int kv_head, int group, int64_t segment,
                            int thread, int &first_active) const {
    const int heads = static_cast<int>(job.spec.n_heads / job.spec.n_kv_heads);
    const int first_head = kv_head * heads + group * job.task_heads;
    const int64_t base = segment * kSegmentKeys;
    task.plane = plane(job.spec, block.first_row);
    task.kv_head = static_cast<uint32_t>(kv_head);
    task.segment = segment;
    task.scale = job.spec.scale;
    task.scratch = state_.workspace.scratch(thread).attention;
    task.n_heads = std::min(job.task_heads, heads - group * job.task_heads);
    task.n_rows = 0;
    for (int r = 0; r < block.n_rows; ++r) {
        const PositionRange all = visible(job, block.first_row + r);
        const PositionRange seen{std::max(all.first, base), std::min(all.last, base + kSegmentKeys - 1)};
        if (seen.first > seen.last)
            continue;
        if (task.n_rows == 0)
            first_active = r;
        task.ranges[task.n_rows] = seen;
        const float *query = state_.workspace.row(Act::query, block.first_row + r) + size_t(first_head) * job.spec.head_dim;
        for (int h = 0; h < task.n_heads; ++h)
            task.queries[task.n_rows * task.n_heads + h] = query + size_t(h) * job.spec.head_dim;
        ++task.n_rows;
    }
    return task.n_rows > 0;
}

// All segments of one block and head group, merged as they come.
void AttentionPlanner::whole(const Job &job, int item, int thread) const {
    const int per_block = static_cast<int>(job.spec.n_kv_heads) * job.head_groups;
    // Later rows see more: handed out first, so that the threads end together.
    const Block &block = blocks_[job.first_block + job.n_blocks - 1 - item / per_block];
    const int kv_head = item % per_block / job.head_groups, group = item % job.head_groups;
    const ThreadScratch &s = state_.workspace.scratch(thread);
    const auto state = [&](float *out, float *max, float *sum, int v) {
        return SoftmaxState{max + v, sum + v, out + size_t(v) * job.value_width};
    };
    SegmentTask task;
    for (int64_t segment = block.first_segment; segment <= block.last_segment; ++segment) {
        int first_active = 0;
        if (!fill(task, job, block, kv_head, group, segment, thread, first_active))
            continue;
        const auto fresh = [&](int v) { // the first segment of this query goes straight into the merged state
            return segment == segment_of(visible(job, block.first_row + first_active + v / task.n_heads).first);
        };
        const int n = task.n_rows * task.n_heads, skipped = first_active * task.n_heads;
        for (int v = 0; v < n; ++v)
            task.results[v] = fresh(v) ? state(s.merged_out, s.merged_max, s.merged_sum, skipped + v)
                                       : state(s.segment_out, s.segment_max, s.segment_sum, skipped + v);
        ops_.attend_segment(task);
        for (int v = 0; v < n; ++v)
            if (!fresh(v))
                ops_.merge_segment(state(s.merged_out, s.merged_max, s.merged_sum, skipped + v), task.results[v],
                                   job.value_width);
    }
    const int first_head = kv_head * static_cast<int>(job.spec.n_heads / job.spec.n_kv_heads) + group * job.task_heads;
    for (int v = 0; v < block.n_rows * task.n_heads; ++v)
        write_output(job, state(s.merged_out, s.merged_max, s.merged_sum, v), block.first_row + v / task.n_heads,
               first_head + v % task.n_heads, thread);
}

SoftmaxState AttentionPlanner::slot(const Job &job, size_t index, int head) const {
    float *base = state_.workspace.partials() + index * job.spec.n_heads * (job.value_width + 2);
    float *scalars = base + size_t{job.spec.n_heads} * job.value_width;
    return {scalars + 2 * head, scalars + 2 * head + 1, base + size_t(head) * job.value_width};
}

size_t AttentionPlanner::partial_slot(Wave wave, const Block &block, int row, int64_t segment) const {
    return state_.rows.size() + size_t(row) * wave.count + (segment - block.first_segment - wave.first);
}

AttentionPlanner::Item AttentionPlanner::item_at(const Job &job, Wave wave, int index) const {
    const int per_segment = static_cast<int>(job.spec.n_kv_heads) * job.head_groups;
    const Block *block = &blocks_[job.first_block];
    for (; index >= segments_in(*block, wave) * per_segment; ++block)
        index -= segments_in(*block, wave) * per_segment;
    return {block, index % per_segment / job.head_groups, index % job.head_groups,
            block->first_segment + wave.first + index / per_segment};
}

// Where the keys of the item's segment begin.
const void *AttentionPlanner::keys_of(const Job &job, const Item &item) const {
    const PlaneView &view = plane(job.spec, item.block->first_row);
    const auto position = static_cast<uint32_t>(item.segment * kSegmentKeys), head = static_cast<uint32_t>(item.kv_head);
    switch (view.type) {
    case KvType::f16: return view.key_tile<uint16_t>(position, head);
    case KvType::f32: return view.key_tile<float>(position, head);
    case KvType::q8_0: return view.key_tile<int8_t>(position, head);
    }
    return nullptr;
}

void AttentionPlanner::partial(const Job &job, Wave wave, const Item &item, const void *next, int thread) const {
    const Block &block = *item.block;
    SegmentTask task;
    task.next = next;
    int first_active = 0;
    if (!fill(task, job, block, item.kv_head, item.group, item.segment, thread, first_active))
        return;
    const int first_head =
        item.kv_head * static_cast<int>(job.spec.n_heads / job.spec.n_kv_heads) + item.group * job.task_heads;
    for (int v = 0; v < task.n_rows * task.n_heads; ++v) {
        const int row = block.first_row + first_active + v / task.n_heads;
        task.results[v] = slot(job, partial_slot(wave, block, row, item.segment), first_head + v % task.n_heads);
    }
    ops_.attend_segment(task);
}

const AttentionPlanner::Block &AttentionPlanner::block_of(const Job &job, int row) const {
    size_t b = job.first_block;
    while (row >= blocks_[b].first_row + blocks_[b].n_rows)
        ++b;
    return blocks_[b];
}

// One query vector's states of the wave, in ascending order, into `merged`.
void AttentionPlanner::merge(const Job &job, Wave wave, int row, int head, SoftmaxState merged) const {
    const Block &block = block_of(job, row);
    const PositionRange seen = visible(job, row);
    const int64_t first = segment_of(seen.first), wave_first = block.first_segment + wave.first;
    const int64_t from = std::max(first, wave_first), to = std::min(segment_of(seen.last), wave_first + wave.count - 1);
    for (int64_t segment = from; segment <= to; ++segment) {
        const SoftmaxState part = slot(job, partial_slot(wave, block, row, segment), head);
        if (segment == first) {
            *merged.max = *part.max;
            *merged.sum = *part.sum;
            std::copy_n(part.out, job.value_width, merged.out);
        } else {
            ops_.merge_segment(merged, part, job.value_width);
        }
    }
}

} // namespace muser::cpu
