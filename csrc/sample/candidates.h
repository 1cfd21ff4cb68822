// The tokens that are still in the running, and their logits. A row is first only looked at ("dense": the caller's
// memory, or a copy once a logit is edited); the first filter that leaves few tokens turns it into a list, ascending
// by id. A token with -inf is no candidate. All steps of the chain work on this.
//
//   rank     by logit, descending; ties by token id, ascending
//   scale    what the temperatures so far multiply the logits by, float32, kept apart until somebody edits logits
//   weight   floor(2^30 * exp((logit - best) * scale)), an integer; exp is float32 (weights.h). Sums of integers are
//            exact in any order. A token more than 20.8 / scale below the best has weight 0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/block_best.h"

namespace muser {

struct Candidate {
    float logit;
    int32_t token;
    uint32_t weight; // as of the last weigh()
};

inline bool ranks_before(const Candidate &a, const Candidate &b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

class Candidates {
  public:
    // Begins with all of a row, which must outlive the work on it. Returns the index of its first NaN, else -1.
    int64_t load(std::span<const float> row);

    size_t vocab() const { return row_.size(); }
    float best() const { return best_; } // -inf: there is no candidate
    float scale() const { return scale_; }
    int32_t first_maximum() const; // the first in rank
    size_t count() const;

    // -- editing logits: find(), write, and edited() at the end ------------------------------------------------
    float *find(int32_t token); // nullptr if it is no candidate
    void edited();
    void scale_by(double factor); // above 0; saturates at float32's ends
    void edited_at_scale_1();     // the same after all logits of list() were written
    void settle();                // multiplies the scale into the logits (clamped to finite) and makes it 1

    // -- weights ---------------------------------------------------------------------------------------------
    uint64_t weigh();                // computes all weights, unless they are known; returns their sum
    int32_t at(uint64_t rest) const; // after weigh(): the first token, by id, at which the running sum of weights exceeds rest
    uint32_t weight_of(int32_t token) const; // of a candidate

    // -- choosing ----------------------------------------------------------------------------------------------
    bool is_list() const { return listed_; }
    std::vector<Candidate> &list(); // all candidates, ascending by id
    void keep_above(float threshold); // logit >= threshold; makes a list
    void keep_best(size_t k);         // the first k in rank; makes a list
    void keep_until(const Candidate &last); // what does not rank after it; of a list
    std::vector<Candidate> &scratch() { return ranking_; }  // anybody's until the next call of a keep_ or best_ranked
    std::vector<Candidate> &best_ranked(size_t m); // the first m, in rank: a copy
    void removed();                                // after the caller erased from list(): finds the best again

    template <class Keep> void keep_if(Keep keep) {
        std::erase_if(list(), [&](const Candidate &c) { return !keep(c); });
        removed();
    }

    // f(token, logit) for every candidate, ascending by id.
    template <class F> void each(F f) const {
        if (listed_) {
            for (const Candidate &c : list_)
                f(c.token, c.logit);
            return;
        }
        for (size_t b = 0; b < block_best_.size(); ++b) {
            if (block_best_[b] == -kInfinity)
                continue;
            const size_t end = std::min((b + 1) * kBlock, row_.size());
            for (size_t i = b * kBlock; i < end; ++i)
                if (row_[i] > -kInfinity)
                    f(static_cast<int32_t>(i), row_[i]);
        }
    }

    // f(logit, weight) for the candidates that weigh something, after weigh().
    template <class F> void each_weighed(F f) const {
        if (listed_) {
            for (const Candidate &c : list_)
                if (c.weight > 0)
                    f(c.logit, c.weight);
            return;
        }
        for (size_t b = 0; b < block_best_.size(); ++b) {
            if (block_weight_[b] == 0)
                continue;
            const size_t end = std::min((b + 1) * kBlock, row_.size());
            for (size_t i = b * kBlock; i < end; ++i)
                if (weights_[i] > 0)
                    f(row_[i], weights_[i]);
        }
    }

  private:
    bool weights_known() const { return weighed_ && weighed_best_ == best_ && weighed_scale_ == scale_; }
    void own();
    void find_best();
    float bound_of_best(size_t k);
    void collect(float threshold, std::vector<Candidate> &into) const;

    std::span<const float> row_;
    std::vector<float> copy_; // row_ views it once a logit was edited
    bool owned_ = false;
    bool listed_ = false;
    float best_ = -kInfinity;
    float scale_ = 1.0f;
    bool weighed_ = false; // since the last edit, and at:
    float weighed_best_ = 0, weighed_scale_ = 0;
    std::vector<Candidate> list_;
    // Scratch, kept between tokens so that sampling allocates nothing.
    std::vector<float> block_best_;
    std::vector<uint64_t> block_weight_;
    std::vector<uint32_t> weights_;
    std::vector<Candidate> ranking_;
    std::vector<float> block_ranking_;
    std::vector<size_t> touched_; // blocks with edited logits
};

} // namespace muser
