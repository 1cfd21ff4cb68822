#include "session/memory_plan.h"

#include <algorithm>

#include "core/memory.h"
#include "kv/planes.h"
#include "model/graph.h"

namespace muser {

namespace {

constexpr uint32_t kContextStep = 64; // granularity of the search for the largest context

MemoryPlan plan_for(const HParams &h, const WeightTable &table, const Device &device, int slots, uint32_t context, KvType type,
                    bool staging) {
    MemoryPlan plan;
    plan.context = context;
    plan.slots = slots;
    plan.kv_type = type;
    for (const WeightSource &source : table.sources) {
        plan.weights += device.weight_bytes(source.view, source.use);
        if (device.keeps_file(source.view.type, source.use))
            plan.mapped += source.view.data.size();
    }
    const std::vector<PlaneSpec> planes = plane_specs(h, context, type);
    for (const PlaneSpec &plane : planes) {
        (plane.ring ? plan.ring_planes : plan.growing_planes) += 1;
        (plane.ring ? plan.ring_rows : plan.growing_rows) = plane.rows;
    }
    plan.plane_row_bytes = uint64_t{2} * h.n_kv_heads * kv_bytes(type, h.head_dim);
    plan.kv_per_slot = device.kv_bytes(planes);
    plan.staging = staging ? plan.kv_per_slot : 0;
    plan.workspace = device.workspace_bytes(workspace_spec(h, std::min(context, kRingMargin), kMaxLogitRows, kMaxTaps));
    plan.retained = uint64_t{h.vocab} * sizeof(float) * static_cast<uint64_t>(slots);
    plan.total = plan.weights + plan.kv_per_slot * static_cast<uint64_t>(slots) + plan.staging + plan.workspace + plan.retained;
    return plan;
}

} // namespace

MemoryPlan plan_memory(const HParams &h, const WeightTable &table, const Device &device, int slots,
                       std::optional<uint32_t> context, KvType type, uint64_t memory_limit,
                       std::optional<uint64_t> prefix_cache, bool staging) {
    const uint64_t available = memory_limit ? memory_limit : available_memory();
    const std::string limit = "; available: " + std::to_string(available) + (memory_limit ? " (memory_limit)" : "");
    const auto plan_at = [&](uint32_t rows) { return plan_for(h, table, device, slots, rows, type, staging); };

    if (context && (*context < 2 || *context > h.context)) // a prompt and a token after it
        throw parameter_error("context", "must be in 2.." + std::to_string(h.context) + " (the model's own limit)", *context);
    MemoryPlan plan = plan_at(context.value_or(h.context));
    if (!context && plan.total > available) {
        // The largest multiple of kContextStep that fits; the plan grows with the context.
        uint32_t low = 1, high = h.context / kContextStep;
        while (low < high) {
            const uint32_t middle = low + (high - low + 1) / 2;
            if (plan_at(middle * kContextStep).total <= available)
                low = middle;
            else
                high = middle - 1;
        }
        plan = plan_at(std::min(low * kContextStep, h.context));
    }
    plan.available = available;
    if (plan.total <= available)
        plan.prefix_cache = prefix_cache.value_or((available - plan.total) / 4);
    if (plan.total <= available && plan.prefix_cache > available - plan.total)
        throw Error(ErrorCode::out_of_memory,
                    "prefix_cache_bytes of " + std::to_string(plan.prefix_cache) + " do not fit beside the model's " +
                        std::to_string(plan.total) + " bytes" + limit,
                    {{"needed", static_cast<int64_t>(plan.total + std::min(plan.prefix_cache, UINT64_MAX / 2 - plan.total))},
                     {"available", static_cast<int64_t>(available)}});
    if (plan.total > available)
        throw Error(ErrorCode::out_of_memory,
                    "the model needs " + std::to_string(plan.total) + " bytes for " + std::to_string(slots) + " slots of " +
                        std::to_string(plan.context) + " rows (weights " + std::to_string(plan.weights) + ", KV " +
                        std::to_string(plan.kv_per_slot) + " a slot)" + limit,
                    {{"needed", static_cast<int64_t>(plan.total)}, {"available", static_cast<int64_t>(available)}});
    return plan;
}

} // namespace muser
