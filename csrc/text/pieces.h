// The tokens that ordinary text may become: a vocabulary without its control tokens, so that no merge can end in one.
#pragma once

#include <memory>
#include <vector>

#include "text/strings.h"

namespace muser::text {

class Pieces {
  public:
    // usable: one flag a token.
    Pieces(std::shared_ptr<const StringIndex> index, std::vector<bool> usable)
        : index_(std::move(index)), usable_(std::move(usable)) {}

    int32_t find(std::string_view text) const { // -1 when there is none
        const int32_t token = index_->find(text);
        return token >= 0 && usable(token) ? token : -1;
    }
    void find_all(std::span<const std::string_view> texts, std::span<int32_t> tokens) const {
        index_->find_all(texts, tokens);
        for (int32_t &token : tokens)
            token = token >= 0 && usable(token) ? token : -1;
    }
    // Whether find() of both texts together would give this number, which may be any: without hashing them.
    bool is_union(int32_t token, std::string_view left, std::string_view right) const {
        if (token < 0 || static_cast<size_t>(token) >= texts().size() || !usable(token))
            return false;
        const std::string_view text = texts()[static_cast<size_t>(token)];
        return text.size() == left.size() + right.size() && text.starts_with(left) && text.ends_with(right) && !text.empty();
    }
    bool usable(int32_t token) const { return usable_[static_cast<size_t>(token)]; }
    const Strings &texts() const { return index_->strings(); }

  private:
    std::shared_ptr<const StringIndex> index_;
    std::vector<bool> usable_;
};

} // namespace muser::text
