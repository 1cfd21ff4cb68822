// What all parts of the recorder know about the pass being recorded: its rows, and where an activation lives.
//
// With few rows the residual, normed and attention rows and their int8 forms are kept by every thread for itself:
// norming and quantizing a row again on each thread takes less time than a barrier, after one thread did it while
// the others waited. With many rows of narrow activations a thread keeps its rows in its own cache instead, and goes
// with them from one attention to the next without meeting the others.
#pragma once

#include <span>

#include "device/cpu/workspace.h"
#include "device/device.h"

namespace muser::cpu {

// Of a long prompt of a small model: rows of one turn, where possible or at least; least turns of a thread; and how wide its
// widest activations may be to stay in second-level cache. Every turn reads and unpacks the weights again, so that larger
// models share products by outputs.
inline constexpr int kMostTurnRows = 128, kTurnRows = 64, kTurnsPerThread = 2;
inline constexpr size_t kTurnFloats = 5120;

class PassState {
  public:
    void begin(std::span<const Row> rows, int threads) {
        this->rows = rows;
        threads_ = threads;
        first_row_ = 0;
        few_ = threads > 1 && is_small(Act::residual);
        read_everywhere_ = 0;
    }
    void narrow(int first_row) { first_row_ = first_row; }

    std::span<const Row> rows;
    Workspace workspace;

    int n_rows() const { return static_cast<int>(rows.size()); }
    int first_row() const { return first_row_; } // of those that ops recorded from now on compute
    int wanted_rows() const { return n_rows() - first_row_; }
    // True where each thread takes rows of its own through everything between two attentions, products included.
    bool by_rows() const { return turn_rows() > 0; }
    int turn_rows() const { return can_take(kMostTurnRows) ? kMostTurnRows : can_take(kTurnRows) ? kTurnRows : 0; }
    uint32_t width(Act a) const { return workspace.width(a); }

    bool few() const { return few_; }
    bool is_own(Act a) const { return few_ && (a == Act::residual || a == Act::normed || a == Act::attention); }
    // One row is never shared among threads anyway; several are worth it up to a few thousand values.
    bool is_small(Act a) const { return rows.size() == 1 || (rows.size() <= kFewRows && rows.size() * width(a) <= 2560); }

    float *act(Act a, int row, int thread) const {
        if (!is_own(a))
            return workspace.row(a, row);
        return workspace.scratch(thread).acts[static_cast<size_t>(a)] + size_t(row) * workspace.stride(a);
    }

    // Shared rows that work done everywhere reads: a step that overwrites them must wait for all of it.
    void reads_everywhere(Act a) { read_everywhere_ |= 1u << static_cast<int>(a); }
    bool is_read_everywhere(Act a) const { return read_everywhere_ >> static_cast<int>(a) & 1u; }
    void all_has_read() { read_everywhere_ = 0; }

  private:
    bool can_take(int turn) const {
        const int least = turn * threads_, rounds = (wanted_rows() + least - 1) / least;
        return threads_ > 1 && rounds >= kTurnsPerThread && wanted_rows() >= rounds * least * 9 / 10 &&
               workspace.stride(Act::ffn_gate) + workspace.stride(Act::ffn_up) <= kTurnFloats;
    }

    int threads_ = 1, first_row_ = 0;
    bool few_ = false;
    uint32_t read_everywhere_ = 0;
};

} // namespace muser::cpu
