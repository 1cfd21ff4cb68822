// Every buffer of a pass, allocated once: activations that only the GPU sees, and what the host writes before a pass
// or reads after it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "device/device.h"
#import "device/metal/gpu.h"
#import "device/metal/pass_encoder.h"

namespace muser::metal {

inline constexpr uint32_t kMaxSplits = 64;     // of one row's keys at decode
inline constexpr uint32_t kMaxDecodeRows = 4;  // that the matvec kernels take at once
inline constexpr uint32_t kMaxRopes = 2;       // rotary configurations of one model (Gemma 3 has two)
inline constexpr uint32_t kMaxTileLists = 4;   // ways to cut the rows of one pass into tiles

// The bits of Resources: the activations by their number in Act, then these.
enum Resource : uint32_t { kGluOut = 16, kHeadInput, kLogits, kTaps, kParts, kPlanes, kNextRows };
constexpr Resources bit(Act act) { return 1u << static_cast<uint32_t>(act); }
constexpr Resources bit(Resource resource) { return 1u << resource; }

class Workspace {
  public:
    Workspace() = default;
    Workspace(const Gpu &gpu, const WorkspaceSpec &spec);
    static uint64_t bytes(const WorkspaceSpec &spec);

    const WorkspaceSpec &spec() const { return spec_; }
    uint32_t width(Act act) const { return spec_.widths[static_cast<size_t>(act)]; }
    uint32_t stride(Act act) const; // floats between rows: whole tiles of a matvec's input
    uint32_t logits_stride() const;
    uint32_t rope_pairs() const; // most that a rotary configuration may have
    bool has_room_for_chains() const { return spec_.max_logit_rows >= kLinksInFlight; }
    bool has_room_for_choices() const { return spec_.max_rows + 1 >= 2 * kRowsBeside; }
    void use_link(size_t link) { link_ = link; }
    size_t link() const { return link_; }

    Place act(Act act) const { return {acts_[static_cast<size_t>(act)], 0}; }
    Place glu_out() const { return {glu_out_, 0}; } // of a few rows, in lane order: never in place
    Place head_input() const { return {head_input_, 0}; }
    Place parts() const { return {parts_, 0}; }
    Place part_sums() const { return {part_sums_, 0}; }
    Place logits() const { return logits(link_); }
    Place logits(size_t link) const;
    Place taps(uint32_t tap) const;
    Place rows() const;
    Place unread() const { return {rows_, 0}; } // for an argument that a kernel does not look at; aligned for any type
    Place next_row() const; // of the next link: its token is what this one chooses
    Place spare_rows(uint32_t n_rows) const; // behind the pass's own
    Place chosen() const { return chosen(link_); }
    Place chosen(size_t link) const { return {chosen_, link * sizeof(int32_t)}; }
    Place tiles(uint32_t list) const;
    Place picked() const { return {picked_, 0}; }
    Place angles(uint32_t rope) const;

  private:
    struct Sizes;
    static Sizes sizes(const WorkspaceSpec &spec);

    size_t link_ = 0; // of a chain: its row, logits and token are its own
    WorkspaceSpec spec_{};
    std::array<id<MTLBuffer>, static_cast<size_t>(Act::count)> acts_ = {};
    id<MTLBuffer> glu_out_ = nil, head_input_ = nil, parts_ = nil, part_sums_ = nil, logits_ = nil, taps_ = nil;
    id<MTLBuffer> rows_ = nil, tiles_ = nil, picked_ = nil, angles_ = nil, chosen_ = nil;
};

// Shared memory as the host sees it.
template <class T> T *host(const Place &place) {
    return reinterpret_cast<T *>(static_cast<std::byte *>(place.buffer.contents) + place.offset);
}

} // namespace muser::metal
