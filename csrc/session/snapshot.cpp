#include "session/snapshot.h"

#include <cstring>
#include <string>

namespace muser {

namespace {

struct Header {
    uint32_t version, position, high_water, prefilled, n_planes, vocab;
};
struct PlaneHeader {
    uint32_t first, row_bytes;
};

Error refuse(const std::string &why) {
    return Error(ErrorCode::parameter, "the snapshot " + why, {{"parameter", "snapshot"}, {"value", why}});
}

class Writer {
  public:
    explicit Writer(size_t bytes) { out_.reserve(bytes); }
    template <class T> void put(const T *data, size_t n) {
        const auto *first = reinterpret_cast<const std::byte *>(data);
        out_.insert(out_.end(), first, first + n * sizeof(T));
    }
    std::byte *room(size_t bytes) {
        out_.resize(out_.size() + bytes);
        return out_.data() + out_.size() - bytes;
    }
    std::vector<std::byte> take() { return std::move(out_); }

  private:
    std::vector<std::byte> out_;
};

class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
    template <class T> void get(T *to, size_t n) {
        const auto bytes = take(n * sizeof(T));
        if (n > 0)
            std::memcpy(to, bytes.data(), bytes.size());
    }
    std::span<const std::byte> take(size_t bytes) {
        if (bytes > rest_.size())
            throw refuse("ends too early");
        const auto taken = rest_.first(bytes);
        rest_ = rest_.subspan(bytes);
        return taken;
    }
    size_t left() const { return rest_.size(); }

  private:
    std::span<const std::byte> rest_;
};

void check_counts(const Header &header, std::span<const PlaneSpec> planes, uint32_t vocab, uint32_t context) {
    if (header.version != kSnapshotVersion)
        throw refuse("has version " + std::to_string(header.version) + ", not " + std::to_string(kSnapshotVersion));
    if (header.position > context || header.high_water > context || header.high_water < header.position)
        throw refuse("has " + std::to_string(header.position) + " rows of at most " + std::to_string(header.high_water) +
                     ", and the context is " + std::to_string(context));
    if (header.prefilled > header.position)
        throw refuse("counts more prefilled rows than rows");
    if (header.n_planes != planes.size())
        throw refuse("has " + std::to_string(header.n_planes) + " planes, not " + std::to_string(planes.size()));
    if (header.vocab != 0 && header.vocab != vocab)
        throw refuse("has logits of " + std::to_string(header.vocab) + " tokens, not " + std::to_string(vocab));
}

} // namespace

uint64_t plane_row_bytes(const PlaneSpec &plane) {
    return uint64_t{2} * plane.n_kv_heads * kv_bytes(plane.type, plane.head_dim);
}

std::vector<std::byte> take_snapshot(Session &session, std::span<const PlaneSpec> planes) {
    const Session::Contents contents = session.contents();
    const auto position = static_cast<uint32_t>(contents.tokens.size());
    const size_t vocab = contents.logits ? contents.logits->size() : 0;
    std::vector<PlaneHeader> heads;
    uint64_t bytes = sizeof(Header) + planes.size() * sizeof(PlaneHeader) + position * sizeof(int32_t) + vocab * sizeof(float);
    for (const PlaneSpec &plane : planes) {
        const Positions held = held_positions(plane, position, contents.high_water);
        heads.push_back({held.begin, static_cast<uint32_t>(plane_row_bytes(plane))});
        bytes += (held.end - held.begin) * plane_row_bytes(plane);
    }
    Writer writer(bytes);
    const Header header{kSnapshotVersion,   position, contents.high_water, contents.prefilled, static_cast<uint32_t>(planes.size()),
                        static_cast<uint32_t>(vocab)};
    writer.put(&header, 1);
    writer.put(heads.data(), heads.size());
    writer.put(contents.tokens.data(), position);
    if (contents.logits)
        writer.put(contents.logits->data(), vocab);
    for (uint32_t i = 0; i < planes.size(); ++i)
        session.kv().read_rows(i, {heads[i].first, position}, writer.room((position - heads[i].first) * plane_row_bytes(planes[i])));
    return writer.take();
}

void install_snapshot(Session &session, std::span<const PlaneSpec> planes, uint32_t vocab, uint32_t context,
                      std::span<const std::byte> bytes) {
    Reader reader(bytes);
    Header header;
    reader.get(&header, 1);
    check_counts(header, planes, vocab, context);
    std::vector<PlaneHeader> heads(planes.size());
    reader.get(heads.data(), heads.size());
    for (size_t i = 0; i < planes.size(); ++i) {
        if (heads[i].row_bytes != plane_row_bytes(planes[i]))
            throw refuse("has rows of " + std::to_string(heads[i].row_bytes) + " bytes in plane " + std::to_string(i) + ", not " +
                         std::to_string(plane_row_bytes(planes[i])));
        if (heads[i].first != held_positions(planes[i], header.position, header.high_water).begin)
            throw refuse("holds other positions of plane " + std::to_string(i) + " than its counts say");
    }
    const auto tokens = reader.take(header.position * sizeof(int32_t));
    const auto logits = reader.take(header.vocab * sizeof(float));
    std::vector<std::span<const std::byte>> rows;
    for (size_t i = 0; i < planes.size(); ++i)
        rows.push_back(reader.take((header.position - heads[i].first) * plane_row_bytes(planes[i])));
    if (reader.left() != 0)
        throw refuse("has " + std::to_string(reader.left()) + " bytes too many");

    Session::Contents contents{std::vector<int32_t>(header.position), nullptr, header.high_water, header.prefilled};
    std::memcpy(contents.tokens.data(), tokens.data(), tokens.size());
    for (int32_t token : contents.tokens)
        if (token < 0 || static_cast<uint32_t>(token) >= vocab)
            throw refuse("has the token " + std::to_string(token) + " outside 0.." + std::to_string(vocab - 1));
    if (header.vocab != 0) {
        auto values = std::make_shared<std::vector<float>>(header.vocab);
        std::memcpy(values->data(), logits.data(), logits.size());
        contents.logits = std::move(values);
    }

    session.forget(); // from here on nothing can fail
    for (uint32_t i = 0; i < planes.size(); ++i)
        session.kv().write_rows(i, {heads[i].first, header.position}, rows[i].data());
    session.restore(std::move(contents));
}

} // namespace muser
