// Records what happens between the projections and the output product: queries and keys prepared, keys and values
// stored, attention, its output gate. Each step waits for the next, so that decode takes them in two dispatches: one
// that prepares, stores and attends, and one that joins the parts and applies the gate.
#pragma once

#include <optional>
#include <vector>

#include "device/device.h"
#import "device/metal/pass_state.h"
#import "device/metal/weight.h"

namespace muser::metal {

class AttentionRecorder {
  public:
    explicit AttentionRecorder(PassState &state) : state_(state) {}

    void begin();
    void begin_link(); // keeps what the first link wrote for all of its chain
    void prepare(const QkSpec &spec);
    void store(const AttentionSpec &spec);
    void attend(const AttentionSpec &spec);
    void gate();
    void flush(); // what still waits

  private:
    struct Cut { // of the query heads and rows into threadgroups
        uint32_t tile_heads, head_groups, tile_rows, vectors;
    };
    Cut cut(const AttentionSpec &spec) const;
    HeadArgs head_args(const AttentionSpec &spec) const;
    void encode_store();
    void encode_attention(const AttentionSpec &spec);
    void encode_merge(bool gated);
    void bind_preparation(uint32_t q_norm, uint32_t angles); // at these indices; k_norm follows q_norm
    void bind_planes(uint32_t first, uint32_t plane);
    uint32_t tile_list(uint32_t tile_rows, uint32_t *n_tiles);
    Place angles(const RopeSpec &rope);

    PassState &state_;
    std::optional<QkSpec> preparing_;
    std::optional<AttentionSpec> storing_, merging_;
    AttentionArgs merge_args_{};
    std::vector<const RopeSpec *> ropes_; // of this pass, whose angles are computed
    std::vector<std::pair<uint32_t, uint32_t>> tile_lists_; // (rows of a tile, tiles)
};

} // namespace muser::metal
