// The one forward pass. A prefill chunk, a decode group and a speculative verify are all just rows.
#pragma once

#include <optional>
#include <span>

#include "device/device.h"
#include "model/hparams.h"
#include "model/weights.h"

namespace muser {

struct ForwardRequest {
    std::span<const Row> rows;
    std::span<const int32_t> logit_rows;  // indices into rows
    std::span<const uint32_t> tap_layers; // ascending; the residual *before* these layers (n_layers: after the last)
    PassKind kind = PassKind::decode;
    std::optional<size_t> link = {}; // of the greedy chain that `rows` is: started, not waited for
    const Pauses *pauses = nullptr;  // of a prefill
    bool choices = false; // of logit_rows only the first maximum is wanted: device.chosen(i), of a head that it can_choose() from
};

HeadSpec head_spec(const HParams &hparams, const WeightTable &table, const Weights &weights);

// Runs the pass to its end, or throws; then nothing of it counts. Results: device.logits(i), device.taps(i).
void forward(Device &device, const HParams &hparams, const WeightTable &table, const Weights &weights,
             const ForwardRequest &request, Deadline deadline);

// The sizes of the activation buffers for passes of up to these many rows.
WorkspaceSpec workspace_spec(const HParams &hparams, uint32_t max_rows, uint32_t max_logit_rows, uint32_t max_taps);

} // namespace muser
