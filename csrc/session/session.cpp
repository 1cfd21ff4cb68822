#include "session/session.h"

#include <algorithm>

namespace muser {

std::vector<int32_t> Session::tokens() const {
    std::lock_guard lock(mutex_);
    return tokens_;
}

uint32_t Session::position() const {
    std::lock_guard lock(mutex_);
    return static_cast<uint32_t>(tokens_.size());
}

Logits Session::logits() const {
    std::lock_guard lock(mutex_);
    return logits_;
}

void Session::install(std::span<const int32_t> tokens, Logits logits, Work work) {
    std::lock_guard lock(mutex_);
    if (work == Work::prefill && prefilled_ == tokens_.size())
        prefilled_ += static_cast<uint32_t>(tokens.size());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    logits_ = std::move(logits);
}

void Session::will_write(uint32_t n) {
    std::lock_guard lock(mutex_);
    if (tokens_.empty()) { // an empty session needs no old key
        retained_.clear();
        limit_.reset();
    }
    limit_.wrote(static_cast<uint32_t>(tokens_.size()) + n);
}

void Session::rewind(int64_t to) {
    std::lock_guard lock(mutex_);
    const auto position = static_cast<int64_t>(tokens_.size());
    if (to < 0 || to > position)
        throw parameter_error("to", "must be in 0.." + std::to_string(position) + " (the session's position)", to);
    if (to == position)
        return;
    if (to == 0) {
        retain();
    } else if (to < limit_.lowest()) {
        throw parameter_error("to",
                              "must be at least " + std::to_string(limit_.lowest()) +
                                  ", the oldest row that the sliding-window rings still hold (0 starts over)",
                              to);
    } else {
        tokens_.resize(static_cast<size_t>(to));
        prefilled_ = std::min(prefilled_, static_cast<uint32_t>(to));
    }
    logits_.reset();
}

void Session::reset() {
    std::lock_guard lock(mutex_);
    retain();
    logits_.reset();
}

void Session::retain() {
    if (tokens_.empty())
        return; // then what was retained before is still there
    retained_ = std::move(tokens_);
    retained_prefilled_ = prefilled_;
    tokens_.clear();
    prefilled_ = 0;
}

size_t Session::reusable(std::span<const int32_t> prompt, bool prefilled_only) const {
    std::lock_guard lock(mutex_);
    const std::vector<int32_t> &tokens = tokens_.empty() ? retained_ : tokens_;
    return reusable_rows(tokens, prompt, limit_, prefilled_only ? (tokens_.empty() ? retained_prefilled_ : prefilled_) : SIZE_MAX);
}

void Session::reuse(size_t n) {
    std::lock_guard lock(mutex_);
    tokens_ = std::move(retained_);
    tokens_.resize(n);
    prefilled_ = std::min(retained_prefilled_, static_cast<uint32_t>(n));
    retained_.clear();
}

Retained Session::exchange(Retained next) {
    std::lock_guard lock(mutex_);
    std::swap(kv_, next.kv);
    std::swap(retained_, next.tokens);
    std::swap(limit_, next.limit);
    std::swap(retained_prefilled_, next.prefilled);
    return next;
}

size_t Session::retained() const {
    std::lock_guard lock(mutex_);
    return tokens_.empty() ? retained_.size() : tokens_.size();
}

Session::Contents Session::contents() const {
    std::lock_guard lock(mutex_);
    return {tokens_, logits_, limit_.high_water(), prefilled_};
}

void Session::restore(Contents contents) {
    std::lock_guard lock(mutex_);
    tokens_ = std::move(contents.tokens);
    logits_ = std::move(contents.logits);
    limit_.restore(contents.high_water);
    prefilled_ = contents.prefilled;
    retained_.clear();
}

void Session::swap(Session &other) {
    std::scoped_lock lock(mutex_, other.mutex_);
    std::swap(kv_, other.kv_);
    std::swap(tokens_, other.tokens_);
    std::swap(logits_, other.logits_);
    std::swap(limit_, other.limit_);
    std::swap(prefilled_, other.prefilled_);
    retained_.clear();
    other.retained_.clear();
}

void Session::forget() {
    std::lock_guard lock(mutex_);
    tokens_.clear();
    retained_.clear();
    logits_.reset();
    limit_.reset();
    prefilled_ = 0;
}

Session::Use::Use(Session &session) : session_(session) {
    if (session_.in_use_.exchange(true, std::memory_order_acquire))
        throw Error(ErrorCode::busy, "session " + std::to_string(session.id()) + " is already driven by another caller");
}

Session::Use::~Use() { session_.in_use_.store(false, std::memory_order_release); }

} // namespace muser
