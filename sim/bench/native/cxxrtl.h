// A board that CXXRTL made, as class cxxrtl_design::p_board.

#include "board.h"

#define DUT_PORT(mangled) p_##mangled

template <size_t W> uint8_t *bytes_of(cxxrtl::value<W> &port) {
    return reinterpret_cast<uint8_t *>(port.data);
}
template <size_t W> uint8_t *bytes_of(cxxrtl::wire<W> &port) {
    return reinterpret_cast<uint8_t *>(port.curr.data);
}

struct Dut {
    cxxrtl_design::p_board top;

    void clock(bool level) { top.p_clk.set(level); }
    void eval() { top.step(); }
    bool trace(const char *, uint64_t) { return false; }
    void dump(uint64_t) {}
};
