// The table of one level. Included last by ops_<level>.cpp.
namespace muser::cpu::MUSER_LEVEL {
namespace {

constexpr OpKernels kTable = {
    .level = Level::MUSER_LEVEL,
    .exp = exp_row,
    .sigmoid = sigmoid_row,
    .tanh = tanh_row,
    .rms_norm = rms_norm,
    .add_rms_norm = add_rms_norm,
    .add = add,
    .scale = scale,
    .gate = gate,
    .silu_glu = silu_glu,
    .gelu_tanh_glu = gelu_tanh_glu,
    .softcap = softcap,
    .rope = rope,
    .rotate = rotate,
    .store_kv = store_kv,
    .attend_segment = attend_segment,
    .merge_segment = merge_segment,
    .finish_attention = finish_attention,
};

} // namespace

const OpKernels &op_table() { return kTable; }

} // namespace muser::cpu::MUSER_LEVEL
