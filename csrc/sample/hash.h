// FNV-1a (Fowler, Noll, Vo), 64 bits: notices damage and differences, no adversary.
#pragma once

#include <cstdint>

namespace muser {

class Hash {
  public:
    void add(uint64_t value) { // its eight bytes, least significant first
        for (int shift = 0; shift < 64; shift += 8)
            add_byte(static_cast<uint8_t>(value >> shift));
    }
    void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211u; }
    uint64_t value() const noexcept { return value_; }

  private:
    uint64_t value_ = 14695981039346656037u;
};

} // namespace muser
