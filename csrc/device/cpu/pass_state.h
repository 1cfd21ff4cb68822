// What all parts of the recorder know about the pass being recorded: its rows, and where an activation lives.
//
// With few rows the residual, normed and attention rows and their int8 forms are kept by every thread for itself:
// norming and quantizing a row again on each thread takes less time than a barrier, after one thread did it while
// the others waited.
#pragma once

#include <span>

#include "device/cpu/workspace.h"
#include "device/device.h"

namespace muser::cpu {

class PassState {
  public:
    void begin(std::span<const Row> rows, int threads) {
        this->rows = rows;
        few_ = threads > 1 && is_small(Act::residual);
        read_everywhere_ = 0;
    }

    std::span<const Row> rows;
    Workspace workspace;

    int n_rows() const { return static_cast<int>(rows.size()); }
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
    bool few_ = false;
    uint32_t read_everywhere_ = 0;
};

} // namespace muser::cpu
