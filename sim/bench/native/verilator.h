// A board that Verilator made, as class Vboard.

#include "Vboard.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

#define DUT_PORT(mangled) mangled

template <class T> uint8_t *bytes_of(T &port) { return reinterpret_cast<uint8_t *>(&port); }

struct Dut {
    VerilatedContext context;
    Vboard top{&context};
#if VM_TRACE
    VerilatedVcdC file;
    ~Dut() { file.close(); }
#endif

    void clock(uint8_t level) { top.clk = level; }
    void eval() { top.eval_step(); }

    bool trace([[maybe_unused]] const char *path, [[maybe_unused]] uint64_t now) {
#if VM_TRACE
        if (!path) {
            file.close();
            return true;
        }
        context.traceEverOn(true);
        top.trace(&file, 99);
        file.open(path);
        dump(now);
        return true;
#else
        return false;
#endif
    }

    void dump([[maybe_unused]] uint64_t now) {
#if VM_TRACE
        if (file.isOpen()) file.dump(now);
#endif
    }
};

double sc_time_stamp() { return 0; }
