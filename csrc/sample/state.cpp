#include "sample/state.h"

#include <bit>
#include <cmath>
#include <string>
#include <string_view>

#include "core/error.h"
#include "sample/hash.h"

namespace muser {

namespace {

constexpr std::string_view kMagic("muserSS\x01", 8);

class Writer {
  public:
    void u32(uint32_t value) { number(value, 4); }
    void u64(uint64_t value) { number(value, 8); }
    void f64(double value) { u64(std::bit_cast<uint64_t>(value)); }
    std::vector<uint8_t> bytes;

  private:
    void number(uint64_t value, int size) {
        for (int i = 0; i < size; ++i)
            bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
};

Error refused(const std::string &what) { return Error(ErrorCode::parameter, "state " + what, {{"parameter", "state"}}); }

class Reader {
  public:
    explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
    uint32_t u32() { return static_cast<uint32_t>(number(4)); }
    uint64_t u64() { return number(8); }
    double f64() { return std::bit_cast<double>(u64()); }
    size_t left() const { return bytes_.size(); }

  private:
    uint64_t number(size_t size) {
        if (bytes_.size() < size)
            throw refused("is cut short");
        uint64_t value = 0;
        for (size_t i = size; i-- > 0;)
            value = value << 8 | bytes_[i];
        bytes_ = bytes_.subspan(size);
        return value;
    }
    std::span<const uint8_t> bytes_;
};

uint64_t hash_of(std::span<const uint8_t> bytes) {
    Hash hash;
    for (uint8_t byte : bytes)
        hash.add_byte(byte);
    return hash.value();
}

void write(Writer &out, const RandomStream &stream) {
    for (uint32_t word : stream.state().words)
        out.u32(word);
    out.u32(stream.state().next);
}

void read(Reader &in, RandomStream &stream) {
    RandomStream::State state;
    for (uint32_t &word : state.words)
        word = in.u32();
    state.next = in.u32();
    if (state.next > RandomStream::kWords)
        throw refused("holds a random stream that is none");
    stream.restore(state);
}

double finite(double value) {
    if (!std::isfinite(value))
        throw refused("holds a number that is not finite");
    return value;
}

} // namespace

std::vector<uint8_t> save_state(const Sampler &sampler) {
    const SamplerState &state = sampler.state();
    Writer out;
    out.bytes.assign(kMagic.begin(), kMagic.end());
    out.u64(fingerprint(sampler.params()));
    for (const RandomStream *stream : {&state.distribution, &state.xtc, &state.mirostat, &state.adaptive})
        write(out, *stream);
    out.f64(state.mu);
    out.f64(state.adaptive_average.weighted_sum);
    out.f64(state.adaptive_average.total_weight);
    const auto tokens = state.history.kept();
    out.u64(tokens.size());
    for (int32_t token : tokens)
        out.u32(static_cast<uint32_t>(token));
    out.u64(hash_of(out.bytes));
    return std::move(out.bytes);
}

void restore_state(Sampler &sampler, std::span<const uint8_t> bytes) {
    if (bytes.size() < kMagic.size() + 8 || !std::equal(kMagic.begin(), kMagic.end() - 1, bytes.begin()))
        throw refused("is not the state of a sampler");
    if (bytes[kMagic.size() - 1] != static_cast<uint8_t>(kMagic.back()))
        throw refused("is of version " + std::to_string(bytes[kMagic.size() - 1]) + "; this muser reads version 1");
    const auto body = bytes.first(bytes.size() - 8);
    if (Reader(bytes.last(8)).u64() != hash_of(body))
        throw refused("is damaged: its check sum does not fit");
    Reader in(body.subspan(kMagic.size()));
    if (in.u64() != fingerprint(sampler.params()))
        throw refused("is of a sampler with other parameters or another seed");

    SamplerState state(sampler.params());
    for (RandomStream *stream : {&state.distribution, &state.xtc, &state.mirostat, &state.adaptive})
        read(in, *stream);
    state.mu = finite(in.f64());
    state.adaptive_average.weighted_sum = finite(in.f64());
    state.adaptive_average.total_weight = finite(in.f64());
    const uint64_t count = in.u64();
    if (count != in.left() / 4 || in.left() % 4 != 0)
        throw refused("does not hold the tokens that it names");
    std::vector<int32_t> tokens(count);
    for (int32_t &token : tokens)
        token = static_cast<int32_t>(in.u32());
    state.history.restore(tokens);
    sampler.restore(std::move(state));
}

} // namespace muser
