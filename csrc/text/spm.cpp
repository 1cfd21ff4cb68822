#include "text/spm.h"

#include <algorithm>

#include "core/error.h"
#include "text/utf8.h"

namespace muser::text {

namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81"; // U+2581, how SentencePiece writes a space

std::string with_spaces_written(std::string_view text) {
    std::string written;
    written.reserve(text.size() + text.size() / 2);
    for (const char byte : text)
        byte == ' ' ? written.append(kSpace) : written.append(1, byte);
    return written;
}

} // namespace

// Memory of one encode(). A piece begins at byte i where end[i] is not 0.
struct SpmEncoder::Work {
    struct Pair {
        double score;
        uint32_t left; // where its left half begins
        bool operator<(const Pair &other) const { // the best is the largest
            return score != other.score ? score < other.score : left > other.left;
        }
    };
    std::vector<uint32_t> end, previous;
    std::vector<Pair> queue; // a heap
};

SpmEncoder::SpmEncoder(Pieces pieces, std::vector<double> scores, Fallback fallback)
    : pieces_(std::move(pieces)), scores_(std::move(scores)), fallback_(std::move(fallback)) {
    const Strings &texts = pieces_.texts();
    for (size_t token = 0; token < texts.size(); ++token) {
        const std::string_view text = texts[token];
        for (size_t at = text.find(kSpace, 1); at != std::string_view::npos; at = text.find(kSpace, at + 1))
            if (const auto before = character_before(text, at); before != kSpace && pieces_.usable(static_cast<int32_t>(token)))
                before_space_.emplace(before);
    }
}

bool SpmEncoder::starts_word(std::string_view text, size_t at) const {
    if (!text.substr(at).starts_with(kSpace))
        return false;
    const std::string_view before = character_before(text, at);
    return before != kSpace && !before_space_.contains(before);
}

std::vector<int32_t> SpmEncoder::encode(std::string_view text) const {
    const std::string written = with_spaces_written(text);
    std::vector<int32_t> ids;
    Work work;
    for (size_t start = 0; start < written.size();) {
        size_t end = written.find(kSpace, start + 1);
        while (end != std::string::npos && !starts_word(written, end))
            end = written.find(kSpace, end + 1);
        end = std::min(end, written.size());
        encode_word(std::string_view(written).substr(start, end - start), work, ids);
        start = end;
    }
    return ids;
}

void SpmEncoder::encode_word(std::string_view word, Work &work, std::vector<int32_t> &ids) const {
    if (const size_t n = word.size() > kLongestWord ? count_characters(word) : 0; n > kLongestWord)
        throw Error(ErrorCode::parameter,
                    "text has " + std::to_string(n) + " characters without a place to cut; the limit is " + std::to_string(kLongestWord),
                    {{"parameter", "text"}});
    merge(word, work);
    for (size_t start = 0; start < word.size(); start = work.end[start]) {
        const std::string_view piece = word.substr(start, work.end[start] - start);
        if (const int32_t token = pieces_.find(piece); token >= 0)
            ids.push_back(token);
        else if (!fallback_.bytes.empty())
            for (const char byte : piece)
                ids.push_back(fallback_.bytes[static_cast<uint8_t>(byte)]);
        else if (fallback_.unknown >= 0)
            ids.push_back(fallback_.unknown);
    }
}

// An entry of the queue is stale unless the pair that is now at its place still has its score.
void SpmEncoder::merge(std::string_view word, Work &work) const {
    const auto length = static_cast<uint32_t>(word.size());
    auto &[end, previous, queue] = work;
    end.assign(length, 0);
    previous.assign(length, 0);
    queue.clear();
    for (uint32_t start = 0, before = 0; start < length; before = start, start = end[start]) {
        end[start] = std::min(length, start + static_cast<uint32_t>(character_bytes(word[start])));
        previous[start] = before;
    }
    const auto pair_at = [&](uint32_t left) { // the piece that the one at `left` and its right neighbour make, or -1
        const uint32_t middle = end[left];
        return middle == 0 || middle == length ? -1 : pieces_.find(word.substr(left, end[middle] - left));
    };
    const auto push = [&](uint32_t left) {
        if (const int32_t token = pair_at(left); token >= 0) {
            queue.push_back({scores_[static_cast<size_t>(token)], left});
            std::push_heap(queue.begin(), queue.end());
        }
    };
    for (uint32_t left = 0; left < length; left = end[left])
        push(left);
    while (!queue.empty()) {
        std::pop_heap(queue.begin(), queue.end());
        const auto [score, left] = queue.back();
        queue.pop_back();
        if (const int32_t token = pair_at(left); token < 0 || scores_[static_cast<size_t>(token)] != score)
            continue;
        const uint32_t middle = end[left], right = end[middle];
        end[left] = right;
        end[middle] = 0;
        if (right < length)
            previous[right] = left;
        push(left);
        if (left > 0)
            push(previous[left]);
    }
}

} // namespace muser::text
