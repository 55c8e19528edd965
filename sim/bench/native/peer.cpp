// A board in another simulator behind a C interface: clock, byte storages, ports by name.
//
// Compiled with PEER naming the header of a simulator, which defines `Dut`, and with ports.h, which
// lists the ports: PORTS(X) calls X(name, mangled name, width) for each.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ports.h"
#include PEER

#define API extern "C" __attribute__((visibility("default")))

namespace {

struct Port {
    std::string name;
    uint8_t *bytes;
    unsigned width;
};

uint64_t number(const Port *port) {
    uint64_t value = 0;
    std::memcpy(&value, port->bytes, (port->width + 7) / 8);
    return value;
}

struct Storage {
    uint8_t *memory;
    const Port *read_enable, *read_address, *read_data;
    const Port *write_enable, *write_address, *write_data, *write_strobe;
    unsigned word;

    bool reads = false;
    uint64_t at = 0;

    // Called before the rising edge: a read does not see a write of its cycle.
    void sample(uint8_t *held) {
        reads = *read_enable->bytes;
        if (reads) std::memcpy(held, memory + number(read_address) * word, word);
        if (*write_enable->bytes) {
            uint8_t *target = memory + number(write_address) * word;
            const uint64_t strobe = number(write_strobe);
            if (strobe == ~uint64_t{0} >> (64 - word))
                std::memcpy(target, write_data->bytes, word);
            else
                for (unsigned lane = 0; lane < word; lane++)
                    if (strobe >> lane & 1) target[lane] = write_data->bytes[lane];
        }
    }
};

struct Model {
    Dut dut;
    std::vector<Port> ports;
    std::vector<Storage> storages;
    uint64_t now = 0;

    Model(uint8_t *device, uint8_t *host) {
#define X(name, mangled, width) ports.push_back({#name, bytes_of(dut.top.DUT_PORT(mangled)), width});
        PORTS(X)
#undef X
        storages.push_back(storage("device", device));
        storages.push_back(storage("host", host));
        dut.clock(0);
        dut.eval();
    }

    const Port *port(const std::string &name) const {
        for (const Port &port : ports)
            if (port.name == name) return &port;
        return nullptr;
    }

    Storage storage(const std::string &name, uint8_t *memory) const {
        const auto find = [&](const char *part) { return port(name + "_" + part); };
        Storage found{memory, find("read_enable"), find("read_address"), find("read_data"),
                      find("write_enable"), find("write_address"), find("write_data"),
                      find("write_strobe"), 0};
        found.word = found.read_data->width / 8;
        return found;
    }

    void cycle() {
        uint8_t held[2][256];
        storages[0].sample(held[0]);
        storages[1].sample(held[1]);
        dut.clock(1);
        dut.eval();
        // Only now: what the registers take at this edge must not see it.
        for (int side = 0; side < 2; side++)
            if (storages[side].reads)
                std::memcpy(storages[side].read_data->bytes, held[side], storages[side].word);
        dut.clock(0);
        dut.eval();
        now++;
        dut.dump(now);
    }
};

}  // namespace

API Model *peer_new(uint8_t *device, uint8_t *host) { return new Model(device, host); }
API void peer_delete(Model *model) { delete model; }
API uint64_t peer_now(const Model *model) { return model->now; }
API void peer_settle(Model *model) { model->dut.eval(); }
API bool peer_trace(Model *model, const char *path) { return model->dut.trace(path, model->now); }

API uint8_t *peer_port(Model *model, const char *name) {
    const Port *port = model->port(name);
    return port ? port->bytes : nullptr;
}

API void peer_step(Model *model, uint64_t cycles) {
    for (; cycles; cycles--) model->cycle();
}

// Until the byte is not zero or the cycle is reached; returns whether it is not zero.
API bool peer_run_until(Model *model, const uint8_t *signal, uint64_t cycle) {
    while (!*signal) {
        if (model->now >= cycle) return false;
        model->cycle();
    }
    return true;
}
