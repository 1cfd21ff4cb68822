// The rules by tensor and layer, without an importance matrix.
#include "quantize/mix.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"

namespace muser::quantize {

namespace {

using gguf::BlockType;

constexpr Mix kMixes[] = {
    {"Q2_K", BlockType::Q2_K, 10},   {"Q3_K_S", BlockType::Q3_K, 11}, {"Q3_K_M", BlockType::Q3_K, 12},
    {"Q3_K_L", BlockType::Q3_K, 13}, {"Q4_0", BlockType::Q4_0, 2},    {"Q4_K_S", BlockType::Q4_K, 14},
    {"Q4_K_M", BlockType::Q4_K, 15}, {"Q4_1", BlockType::Q4_1, 3},    {"Q5_0", BlockType::Q5_0, 8},
    {"Q5_K_S", BlockType::Q5_K, 16}, {"Q5_K_M", BlockType::Q5_K, 17}, {"Q5_1", BlockType::Q5_1, 9},
    {"Q6_K", BlockType::Q6_K, 18},   {"Q8_0", BlockType::Q8_0, 7},    {"F16", BlockType::F16, 1},
    {"BF16", BlockType::BF16, 32},   {"F32", BlockType::F32, 0},
};

// The first and last eighth of the layers and every third between: where an error costs most.
bool use_more_bits(uint64_t layer, uint64_t layers) {
    const uint64_t eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

struct Facts {
    uint64_t layers, heads_per_kv;
    bool seventy_b; // its eight attention heads share a V, which is thus small and matters more
    bool has_output;
};

Facts facts_of(const gguf::Model &model) {
    const std::string arch(model.get_string("general.architecture").value_or(""));
    // Some families give one number a layer here; the rules only want to know whether many heads share one V.
    const auto number = [&](const char *key) -> uint64_t {
        const gguf::Entry *entry = model.find(arch + key);
        const uint64_t *value = entry ? std::get_if<uint64_t>(&entry->value) : nullptr;
        return value ? *value : 0;
    };
    const uint64_t layers = number(".block_count"), heads = number(".attention.head_count");
    uint64_t kv = number(".attention.head_count_kv");
    kv = kv > 0 ? kv : heads;
    const bool shares = kv > 0 && heads > kv;
    return {layers, kv > 0 ? heads / kv : 1, layers == 80 && (arch == "qwen2" || (arch == "llama" && shares)),
            model.find_tensor("output.weight") != nullptr};
}

BlockType value_type(std::string_view mix, BlockType base, uint64_t place, uint64_t count, const Facts &facts) {
    BlockType type = base;
    if (mix == "Q2_K")
        type = facts.heads_per_kv >= 4 ? BlockType::Q4_K : BlockType::Q3_K;
    else if (mix == "Q3_K_M")
        type = place < 2 ? BlockType::Q5_K : BlockType::Q4_K;
    else if (mix == "Q3_K_L")
        type = BlockType::Q5_K;
    else if ((mix == "Q4_K_M" || mix == "Q5_K_M") && use_more_bits(place, count))
        type = BlockType::Q6_K;
    else if (mix == "Q4_K_S" && place < 4)
        type = BlockType::Q5_K;
    if (facts.seventy_b && (type == BlockType::Q3_K || type == BlockType::Q4_K))
        type = BlockType::Q5_K;
    return type;
}

BlockType down_type(std::string_view mix, BlockType base, uint64_t layer, uint64_t layers) {
    if (mix == "Q2_K")
        return BlockType::Q3_K;
    if (mix == "Q3_K_M")
        return layer < layers / 16 ? BlockType::Q5_K : BlockType::Q4_K;
    if (mix == "Q3_K_L")
        return BlockType::Q5_K;
    if ((mix == "Q4_K_M" || mix == "Q5_K_M") && use_more_bits(layer, layers))
        return BlockType::Q6_K;
    if (mix == "Q4_K_S" && layer < layers / 8)
        return BlockType::Q5_K;
    return base;
}

BlockType attention_output_type(std::string_view mix, BlockType base) {
    if (mix == "Q2_K")
        return BlockType::Q3_K;
    if (mix == "Q3_K_M")
        return BlockType::Q4_K;
    return mix == "Q3_K_L" ? BlockType::Q5_K : base;
}

BlockType fused_qkv_type(std::string_view mix, BlockType base) {
    if (mix == "Q3_K_M" || mix == "Q3_K_L")
        return BlockType::Q4_K;
    if (mix == "Q4_K_M")
        return BlockType::Q5_K;
    return mix == "Q5_K_M" ? BlockType::Q6_K : base;
}

// What takes the place of a super-block type where rows are no multiple of 256, and of a block type where they are
// none of 32.
BlockType fitting(BlockType type, uint64_t cols) {
    const auto fits = [cols](BlockType t) { return cols % gguf::traits(t).elements == 0; };
    if (!fits(type))
        switch (type) {
        case BlockType::Q2_K:
        case BlockType::Q3_K: type = BlockType::Q4_0; break;
        case BlockType::Q4_K: type = BlockType::Q5_0; break;
        case BlockType::Q5_K: type = BlockType::Q5_1; break;
        case BlockType::Q6_K: type = BlockType::Q8_0; break;
        default: break;
        }
    return fits(type) ? type : BlockType::F16;
}

struct Place {
    uint64_t layer = 0; // of "blk.N."
    std::string_view rest;
};

Place place_of(std::string_view name) {
    Place place{0, name};
    if (!name.starts_with("blk."))
        return place;
    size_t i = 4;
    for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && i < 12; ++i)
        place.layer = place.layer * 10 + static_cast<uint64_t>(name[i] - '0');
    place.rest = name.substr(std::min(i + 1, name.size()));
    return place;
}

} // namespace

std::span<const Mix> mixes() { return kMixes; }

const Mix &mix_named(std::string_view name) {
    std::string known;
    for (const Mix &mix : kMixes) {
        if (mix.name == name)
            return mix;
        known.append(known.empty() ? "" : ", ").append(mix.name);
    }
    throw Error(ErrorCode::parameter, "type must be one of " + known + ", not " + std::string(name),
                {{"parameter", std::string("type")}, {"value", std::string(name)}});
}

bool is_matrix(const gguf::Tensor &tensor) {
    constexpr std::string_view kKept[] = {"_norm.weight",        "ffn_gate_inp.weight", "position_embd.weight",
                                          "token_types.weight",  "rope_freqs.weight",   "per_layer_model_proj.weight",
                                          "altup",               "laurel",              "ssm_conv1d.weight",
                                          "attn_rel_b.weight",   "shortconv.conv.weight"};
    return tensor.rows() > 1 && tensor.name.ends_with("weight") &&
           std::ranges::none_of(kKept, [&](std::string_view kept) { return tensor.name.find(kept) != tensor.name.npos; });
}

std::vector<BlockType> types_of(const gguf::Model &model, const Mix &mix) {
    const bool same_for_all = gguf::traits(mix.base).elements == 1; // F32, F16 and BF16 have no rules
    const Facts facts = facts_of(model);
    std::map<uint64_t, uint64_t> value_layers; // layers that have a V -> how many before it
    for (const gguf::Tensor &tensor : model.tensors())
        if (place_of(tensor.name).rest == "attn_v.weight")
            value_layers[place_of(tensor.name).layer] = 0;
    uint64_t before = 0;
    for (auto &[layer, order] : value_layers)
        order = before++;

    std::vector<BlockType> types;
    for (const gguf::Tensor &tensor : model.tensors()) {
        if (!is_matrix(tensor)) {
            types.push_back(tensor.type);
            continue;
        }
        const auto [layer, rest] = place_of(tensor.name);
        BlockType type = mix.base;
        if (same_for_all)
            ;
        else if (rest == "output.weight" || (rest == "token_embd.weight" && !facts.has_output))
            type = type == BlockType::Q8_0 || tensor.cols() % 256 != 0 ? BlockType::Q8_0 : BlockType::Q6_K;
        else if (rest == "attn_v.weight")
            type = value_type(mix.name, type, value_layers[layer], value_layers.size(), facts);
        else if (rest.starts_with("ffn_down"))
            type = down_type(mix.name, type, layer, facts.layers);
        else if (rest == "attn_output.weight")
            type = attention_output_type(mix.name, type);
        else if (rest == "attn_qkv.weight")
            type = fused_qkv_type(mix.name, type);
        types.push_back(fitting(type, tensor.cols()));
    }
    return types;
}

} // namespace muser::quantize
