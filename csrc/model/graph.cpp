#include "model/graph.h"

#include <algorithm>

namespace muser {

namespace {

struct Recorder {
    Device &device;
    const HParams &h;
    const WeightTable &table;
    const Weights &w;

    const RopeSpec *rope(uint32_t i) const {
        const int index = h.layers[i].rope;
        return index < 0 ? nullptr : &h.ropes[static_cast<size_t>(index)];
    }
    AttentionSpec attention(uint32_t i) const {
        return {i, h.n_heads, h.n_kv_heads, h.head_dim, h.attention_scale, h.layers[i].window};
    }

    // All of a layer that a later pass can see.
    void keys_and_values(uint32_t i) {
        const LayerIndex &layer = table.layers[i];
        const Projection projections[] = {{w[layer.k], w[layer.k_bias], Act::key}, {w[layer.v], w[layer.v_bias], Act::value}};
        device.matmul(Act::normed, projections);
        device.qk_norm_rope({nullptr, w[layer.k_norm], h.norm_eps, rope(i), 0, h.n_kv_heads, h.head_dim});
        device.kv_store(attention(i));
    }

    void queries_keys_and_values(uint32_t i) {
        const LayerIndex &layer = table.layers[i];
        const Projection projections[] = {{w[layer.q], w[layer.q_bias], Act::query},
                                          {w[layer.k], w[layer.k_bias], Act::key},
                                          {w[layer.v], w[layer.v_bias], Act::value},
                                          {w[layer.attn_gate], nullptr, Act::gate}};
        device.matmul(Act::normed, std::span(projections).first(h.attention_gate ? 4 : 3));

        device.qk_norm_rope({w[layer.q_norm], w[layer.k_norm], h.norm_eps, rope(i), h.n_heads, h.n_kv_heads, h.head_dim});

        device.kv_store(attention(i));
    }

    // Keys and values of all rows, queries from `first_row` on: nothing else of the pass is wanted.
    void last_queries(uint32_t i, int first_row) {
        keys_and_values(i);
        device.narrow(first_row);
        const LayerIndex &layer = table.layers[i];
        const Projection projections[] = {{w[layer.q], w[layer.q_bias], Act::query}, {w[layer.attn_gate], nullptr, Act::gate}};
        device.matmul(Act::normed, std::span(projections).first(h.attention_gate ? 2 : 1));
        device.qk_norm_rope({w[layer.q_norm], nullptr, h.norm_eps, rope(i), h.n_heads, 0, h.head_dim});
    }

    void attention_block(uint32_t i) {
        const LayerIndex &layer = table.layers[i];
        device.attention(attention(i));
        if (h.attention_gate)
            device.attention_gate();

        const Projection out{w[layer.out], w[layer.out_bias], Act::branch};
        device.matmul(Act::attention, {&out, 1});
        device.residual_norm(w[layer.post_attn_norm], h.post_norm_eps, w[layer.ffn_norm], h.norm_eps);
    }

    void ffn_block(uint32_t i) {
        const LayerIndex &layer = table.layers[i];
        const Projection projections[] = {{w[layer.ffn_gate], w[layer.ffn_gate_bias], Act::ffn_gate},
                                          {w[layer.ffn_up], w[layer.ffn_up_bias], Act::ffn_up}};
        device.matmul(Act::normed, projections);
        device.glu(h.activation);
        const Projection down{w[layer.ffn_down], w[layer.ffn_down_bias], Act::branch};
        device.matmul(Act::ffn_gate, {&down, 1});
        const bool last = i + 1 == h.n_layers;
        device.residual_norm(w[layer.post_ffn_norm], h.post_norm_eps, last ? nullptr : w[table.layers[i + 1].attn_norm], h.norm_eps);
    }
};

} // namespace

HeadSpec head_spec(const HParams &h, const WeightTable &table, const Weights &w) {
    return {w[table.output_norm], h.norm_eps, w[table.output], w[table.output_bias], h.logit_scale, h.softcap};
}

void forward(Device &device, const HParams &h, const WeightTable &table, const Weights &w, const ForwardRequest &request,
             Deadline deadline) {
    const auto taps = [&](uint32_t layer) {
        return std::ranges::find(request.tap_layers, layer) != request.tap_layers.end();
    };
    Recorder record{device, h, table, w};
    if (request.link)
        device.begin_link(request.rows, *request.link);
    else
        device.begin(request.rows, request.kind);
    device.embed(*w[table.token_embd], h.embed_op, h.embed_x);
    device.norm(*w[table.layers[0].attn_norm], h.norm_eps);
    // A chunk inside a prompt leaves keys and values behind, and nothing else: its last layer ends with them.
    const bool ends_at_keys = request.logit_rows.empty() && !taps(h.n_layers);
    const uint32_t whole_layers = ends_at_keys ? h.n_layers - 1 : h.n_layers;
    // Likewise, of the last layer only the rows count whose logits are wanted: of most prompts the last.
    const bool rows_end = !ends_at_keys && !taps(h.n_layers) && device.can_narrow();
    const int first_wanted = rows_end ? *std::ranges::min_element(request.logit_rows) : 0;
    for (uint32_t i = 0; i < h.n_layers; ++i) {
        if (taps(i))
            device.tap();
        if (i == whole_layers) {
            record.keys_and_values(i);
        } else {
            if (first_wanted > 0 && i + 1 == h.n_layers)
                record.last_queries(i, first_wanted);
            else
                record.queries_keys_and_values(i);
            record.attention_block(i);
            record.ffn_block(i);
        }
    }
    if (taps(h.n_layers))
        device.tap();
    if (request.choices)
        device.choose(head_spec(h, table, w), request.logit_rows);
    else
        device.head(head_spec(h, table, w), request.logit_rows);
    if (request.link)
        device.commit_link();
    else if (request.pauses)
        device.commit_pausing(deadline, *request.pauses);
    else
        device.commit_and_wait(deadline);
}

WorkspaceSpec workspace_spec(const HParams &h, uint32_t max_rows, uint32_t max_logit_rows, uint32_t max_taps) {
    WorkspaceSpec spec{};
    spec.max_rows = max_rows;
    spec.max_logit_rows = max_logit_rows;
    spec.max_taps = max_taps;
    spec.vocab = h.vocab;
    const auto width = [&](Act act, uint32_t n) { spec.widths[static_cast<size_t>(act)] = n; };
    const uint32_t n_q = h.n_heads * h.head_dim, n_kv = h.n_kv_heads * h.head_dim;
    width(Act::residual, h.d_model);
    width(Act::normed, h.d_model);
    width(Act::query, n_q);
    width(Act::key, n_kv);
    width(Act::value, n_kv);
    width(Act::gate, h.attention_gate ? n_q : 0);
    width(Act::attention, n_q);
    width(Act::branch, h.d_model);
    width(Act::ffn_gate, h.d_ff);
    width(Act::ffn_up, h.d_ff);
    return spec;
}

} // namespace muser
