#include "session/session.h"

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

void Session::install(std::span<const int32_t> tokens, Logits logits) {
    std::lock_guard lock(mutex_);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    logits_ = std::move(logits);
}

void Session::will_write(uint32_t n) {
    std::lock_guard lock(mutex_);
    limit_.wrote(static_cast<uint32_t>(tokens_.size()) + n);
}

void Session::rewind(int64_t to) {
    std::lock_guard lock(mutex_);
    const auto position = static_cast<int64_t>(tokens_.size());
    if (to < 0 || to > position)
        throw parameter_error("to", "must be in 0.." + std::to_string(position) + " (the session's position)", to);
    if (to == position)
        return;
    if (to == 0) { // an empty session needs no old key
        tokens_.clear();
        limit_.reset();
    } else if (to < limit_.lowest()) {
        throw parameter_error("to",
                              "must be at least " + std::to_string(limit_.lowest()) +
                                  ", the oldest row that the sliding-window rings still hold (0 starts over)",
                              to);
    } else {
        tokens_.resize(static_cast<size_t>(to));
    }
    logits_.reset();
}

void Session::reset() {
    std::lock_guard lock(mutex_);
    tokens_.clear();
    logits_.reset();
    limit_.reset();
}

void Session::copy(const Session &other) {
    reset(); // so that a failed copy leaves an empty session
    std::scoped_lock lock(mutex_, other.mutex_);
    kv_->copy(*other.kv_, other.limit_.high_water());
    tokens_ = other.tokens_;
    logits_ = other.logits_;
    limit_ = other.limit_;
}

Session::Use::Use(Session &session) : session_(session) {
    if (session_.in_use_.exchange(true, std::memory_order_acquire))
        throw Error(ErrorCode::busy, "session " + std::to_string(session.id()) + " is already driven by another caller");
}

Session::Use::~Use() { session_.in_use_.store(false, std::memory_order_release); }

} // namespace muser
