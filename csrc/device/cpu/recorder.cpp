#include "device/cpu/recorder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/kv_planes.h"
#include "device/cpu/require.h"
#include "device/cpu/weight.h"

namespace muser::cpu {

void Recorder::set_workspace(const WorkspaceSpec &spec) {
    state_.workspace = Workspace(); // the old one goes before the new one comes
    state_.workspace = Workspace(spec, pass_.threads());
}

void Recorder::begin(std::span<const Row> rows) {
    require(rows.size() <= state_.workspace.spec().max_rows, "more rows than the workspace has room for");
    pass_.clear();
    state_.workspace.prepare(rows.size());
    state_.begin(rows, pass_.threads());
    products_.begin();
    attention_.begin();
    ropes_.clear();
    n_logits_ = n_taps_ = 0;
    pass_.take_rows(state_.turn_rows());
}

void Recorder::narrow(int first_row) {
    require(can_narrow() && first_row >= 0 && first_row < state_.n_rows(), "narrow() to rows of the pass");
    state_.narrow(first_row);
    products_.forget_quants();
    pass_.take_rows(state_.turn_rows());
}

void Recorder::embed(const Weight &table, EmbedOp op, float x) {
    const CpuWeight &weight = cpu_weight(table);
    require(weight.cols == width(Act::residual), "embedding width");
    each_own_row([this, &weight, op, x](int row, int thread) {
        float *out = act(Act::residual, row, thread);
        weight.row(static_cast<uint64_t>(state_.rows[row].token), out);
        if (op == EmbedOp::scale)
            ops_.scale(out, x, weight.cols);
        else if (op == EmbedOp::rms)
            ops_.rms_norm(out, nullptr, x, out, weight.cols);
    });
}

void Recorder::norm(const Weight &weight, float eps) {
    const float *w = cpu_weight(weight).vector();
    each_own_row([this, w, eps](int row, int thread) {
        ops_.rms_norm(act(Act::residual, row, thread), w, eps, act(Act::normed, row, thread), width(Act::residual));
    });
    products_.wrote(Act::normed);
}

// The index of the table that holds cos and sin of every row's angles; computed once a pass, beside the
// first step. The angle is rounded to float32 as the reference rounds it; its cosine is that of the rounded angle.
int Recorder::rope_table(const RopeSpec &rope) {
    const auto known = std::find(ropes_.begin(), ropes_.end(), &rope);
    const int index = static_cast<int>(known - ropes_.begin());
    if (known != ropes_.end())
        return index;
    require(index < kMaxRopes, "more rotary configurations than the workspace has room for");
    require(rope.inv_freq.size() <= state_.workspace.rope_width(), "more rotary pairs than half a head");
    ropes_.push_back(&rope);
    const auto angles = [this, index, &rope](int first, int last, int) {
        for (int row = first; row < last; ++row) {
            float *cosine = state_.workspace.rope_cos(index, row), *sine = state_.workspace.rope_sin(index, row);
            for (size_t k = 0; k < rope.inv_freq.size(); ++k) {
                const float angle = static_cast<float>(state_.rows[row].position) * rope.inv_freq[k];
                cosine[k] = static_cast<float>(std::cos(static_cast<double>(angle)));
                sine[k] = static_cast<float>(std::sin(static_cast<double>(angle)));
            }
        }
    };
    if (state_.by_rows()) // the first rotation may be in the first step
        pass_.add_rows(state_.n_rows(), angles);
    else
        pass_.add_prologue(state_.n_rows(), angles);
    return index;
}

void Recorder::qk_norm_rope(const QkSpec &spec) {
    require(spec.n_heads == 0 || spec.n_heads * spec.head_dim == width(Act::query), "query width");
    require(spec.n_kv_heads == 0 || spec.n_kv_heads * spec.head_dim == width(Act::key), "key width");
    const int table = spec.rope ? rope_table(*spec.rope) : 0;
    const auto side = [&](Act which, const Weight *norm, uint32_t heads) {
        if (heads == 0 || (!norm && !spec.rope))
            return;
        const float *weight = norm ? cpu_weight(*norm).vector() : nullptr;
        const RopeSpec *rope = spec.rope;
        const float eps = spec.norm_eps;
        const uint32_t head_dim = spec.head_dim;
        each_row([this, which, weight, eps, heads, head_dim, rope, table](int row, int thread) {
            const float *cosine = state_.workspace.rope_cos(table, row), *sine = state_.workspace.rope_sin(table, row);
            for (uint32_t head = 0; head < heads; ++head) {
                float *x = act(which, row, thread) + size_t{head} * head_dim;
                if (weight)
                    ops_.rms_norm(x, weight, eps, x, head_dim);
                if (rope)
                    ops_.rope(x, cosine, sine, rope->inv_freq.size(), rope->pairing == RopePairing::halves);
            }
        });
    };
    side(Act::query, spec.q_norm, spec.n_heads);
    side(Act::key, spec.k_norm, spec.n_kv_heads);
}

void Recorder::kv_store(const AttentionSpec &spec) {
    const uint32_t plane = spec.plane;
    each_row([this, plane](int row, int thread) {
        const PlaneView &view = static_cast<const KvPlanes *>(state_.rows[row].kv)->plane(plane);
        ops_.store_kv(view, static_cast<uint32_t>(state_.rows[row].position), act(Act::key, row, thread),
                      act(Act::value, row, thread));
    });
}

void Recorder::attention(const AttentionSpec &spec) {
    require(spec.n_heads * spec.head_dim == width(Act::query), "query width");
    attention_.record(spec);
    products_.wrote(Act::attention);
}

void Recorder::attention_gate() {
    each_own_row([this](int row, int thread) {
        ops_.gate(act(Act::attention, row, thread), act(Act::gate, row, thread), width(Act::attention));
    });
    state_.reads_everywhere(Act::gate);
    products_.wrote(Act::attention);
}

void Recorder::glu(Activation activation) {
    if (!products_.join_glu(activation)) {
        const auto kernel = activation == Activation::silu ? ops_.silu_glu : ops_.gelu_tanh_glu;
        each_row([this, kernel](int row, int thread) {
            kernel(act(Act::ffn_gate, row, thread), act(Act::ffn_up, row, thread), width(Act::ffn_gate));
        });
    }
    products_.wrote(Act::ffn_gate);
}

void Recorder::residual_norm(const Weight *post_norm, float post_eps, const Weight *next_norm, float next_eps) {
    const float *post = post_norm ? cpu_weight(*post_norm).vector() : nullptr;
    const float *next = next_norm ? cpu_weight(*next_norm).vector() : nullptr;
    each_own_row([this, post, post_eps, next, next_eps](int row, int thread) {
        const size_t n = width(Act::residual);
        float *x = act(Act::residual, row, thread);
        if (post)
            ops_.add_rms_norm(x, act(Act::branch, row, thread), post, post_eps, n);
        else
            ops_.add(x, act(Act::branch, row, thread), n);
        if (next)
            ops_.rms_norm(x, next, next_eps, act(Act::normed, row, thread), n);
    });
    state_.reads_everywhere(Act::branch);
    products_.wrote(Act::normed);
}

void Recorder::tap() {
    require(n_taps_ < state_.workspace.spec().max_taps, "more taps than the workspace has room for");
    float *to = state_.workspace.taps(static_cast<int>(n_taps_++));
    const bool few = state_.few();
    each_own_row([this, to, few](int row, int thread) {
        const size_t n = width(Act::residual);
        if (!few || thread == 0) // all threads' copies are equal
            std::memcpy(to + size_t(row) * n, act(Act::residual, row, thread), n * sizeof(float));
    });
}

void Recorder::head(const HeadSpec &spec, std::span<const int32_t> rows) {
    require(rows.size() <= state_.workspace.spec().max_logit_rows, "more logits than the workspace has room for");
    if (rows.empty())
        return;
    products_.forget_quants(); // the head's own input takes the buffer
    head_.head(spec, rows);
    n_logits_ = rows.size();
}

void Recorder::choose(const HeadSpec &spec, std::span<const int32_t> rows) {
    products_.forget_quants();
    head_.choose(spec, rows);
}

std::span<const float> Recorder::logits(size_t i) const {
    require(i < n_logits_, "logits() of a row that head() was not given");
    return {state_.workspace.logits(static_cast<int>(i)), state_.workspace.spec().vocab};
}

std::span<const float> Recorder::taps(size_t i) const {
    require(i < n_taps_, "taps() of a tap that was not made");
    return {state_.workspace.taps(static_cast<int>(i)), state_.rows.size() * state_.width(Act::residual)};
}

} // namespace muser::cpu
