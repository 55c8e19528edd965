// Writes a waveform as a VCD file while a design runs; waveform.py makes the tables.
#include "program.h"

enum kind { BIT, VECTOR, NUMBER, TEXT };
enum state { WAITING, RECORDING, OVER };

// What is recorded. BIT and VECTOR are one piece of a value; the others are put together.
struct variable {
    u64 last;     // what was written: a value, or the address of a text
    u64 mask;
    u64 tail;     // characters that follow a value
    u32 offset;   // of the value in the state; index in `wholes` of what is put together
    u8 kind, size, shift, tail_length;
};

struct piece {
    u64 mask;
    u32 offset, position;
    u8 size, shift;
};

// Values of several limbs: `constants` and `lasts` begin at `limb`.
struct whole {
    u32 first, pieces;
    u32 limb, limbs;
    u32 label, width;
};

struct text {
    u64 length;
    char characters[];
};

// Texts by value: pairs (value, text) where `value & mask` or the next free place is.
struct label {
    u64 *pairs;
    u64 mask, room;
};

struct link {
    u64 word, bits;
};

struct waveform {
    u8 *s, *v, *changes;
    u64 cycle;            // that is left next
    u64 before, period, time;
    const struct until *untils;
    u64 conditions;       // none: always inside
    u64 state, all;
    struct variable *variables;
    u64 count, clock;     // clock: its number, `count` without one
    const u32 *first;     // in `links`, of each number in the list of changes
    u64 numbers;
    const struct link *links;
    u64 *marked;
    const struct piece *pieces;
    const struct whole *wholes;
    const u64 *constants;
    u64 *lasts;
    struct label *labels;
    char *buffer;
    u64 used, limit;      // behind the limit there is room for any one variable
    void (*flush)(void);
    const struct text *(*name)(u64 label, u64 value);
};

// Eight bits as characters, the highest first.
static inline u64 spread(u64 byte)
{
    const u64 bits = byte * 0x0101010101010101ull & 0x0102040810204080ull;
    return ((bits + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull) | 0x3030303030303030ull;
}

static inline char *put(char *at, u64 characters, u32 length)
{
    memcpy(at, &characters, 8);
    return at + length;
}

// The lowest `count` bits; writes up to seven characters more.
static inline char *put_bits(char *at, u64 value, u32 count)
{
    char *const end = at + count;
    value <<= 64 - count;
    for (; at < end; at += 8, value <<= 8)
        put(at, spread(value >> 56), 8);
    return end;
}

static inline u32 length_of(u64 value)
{
    return 64 - (u32)__builtin_clzll(value | 1);
}

static char *flush(struct waveform *w, char *at)
{
    w->used = (u64)(at - w->buffer);
    w->flush();
    return w->buffer;
}

static char *put_time(char *at, u64 time)
{
    char digits[20];
    u32 count = 0;
    do
        digits[count++] = (char)('0' + time % 10);
    while (time /= 10);
    *at++ = '#';
    while (count)
        *at++ = digits[--count];
    *at++ = '\n';
    return at;
}

// The text of a value. Python makes it when it comes for the first time.
static const struct text *text_of(struct waveform *w, u32 number, u64 value)
{
    struct label *const label = &w->labels[number];
    u64 at = value & label->mask;
    for (; label->pairs[2 * at + 1]; at = (at + 1) & label->mask)
        if (label->pairs[2 * at] == value)
            return (const struct text *)label->pairs[2 * at + 1];
    const struct text *const text = w->name(number, value);
    if (label->room) {
        label->room--;
        label->pairs[2 * at] = value;
        label->pairs[2 * at + 1] = (u64)text;
    }
    return text;
}

static void gather(const struct waveform *w, const struct whole *whole, u64 *limbs)
{
    memcpy(limbs, w->constants + whole->limb, 8 * whole->limbs);
    for (u32 i = 0; i < whole->pieces; i++) {
        const struct piece *const piece = &w->pieces[whole->first + i];
        const u64 value = load(w->s + piece->offset, piece->size) >> piece->shift & piece->mask;
        const u32 limb = piece->position / 64, bit = piece->position % 64;
        limbs[limb] |= value << bit;
        if (bit && value >> (64 - bit))
            limbs[limb + 1] |= value >> (64 - bit);
    }
}

// Writes a variable that is put together, if it has changed or `always`.
static char *put_whole(struct waveform *w, struct variable *variable, char *at, int always)
{
    const struct whole *const whole = &w->wholes[variable->offset];
    u64 limbs[whole->limbs];
    gather(w, whole, limbs);
    if (variable->kind == TEXT) {
        const struct text *const text = text_of(w, whole->label, limbs[0]);
        if (!always && variable->last == (u64)text)
            return at;
        variable->last = (u64)text;
        *at++ = 's';
        memcpy(at, text->characters, text->length);
        return put(at + text->length, variable->tail, variable->tail_length);
    }
    u64 *const last = w->lasts + whole->limb;
    if (!always && memcmp(last, limbs, sizeof limbs) == 0)
        return at;
    memcpy(last, limbs, sizeof limbs);
    if (whole->width == 1)
        return put(put_bits(at, limbs[0], 1), variable->tail, variable->tail_length);
    *at++ = 'b';
    u32 top = whole->limbs - 1;
    while (top && !limbs[top])
        top--;
    at = put_bits(at, limbs[top], length_of(limbs[top]));
    while (top--)
        at = put_bits(at, limbs[top], 64);
    return put(at, variable->tail, variable->tail_length);
}

static inline char *put_variable(struct waveform *w, struct variable *variable, char *at, int always)
{
    if (variable->kind > VECTOR)
        return put_whole(w, variable, at, always);
    const u64 value = load(w->s + variable->offset, variable->size) >> variable->shift & variable->mask;
    if (!always && value == variable->last)
        return at;
    variable->last = value;
    if (variable->kind == VECTOR) {
        *at++ = 'b';
        at = put_bits(at, value, length_of(value));
    } else {
        *at++ = (char)('0' + value);
    }
    return put(at, variable->tail, variable->tail_length);
}

static inline char *room(struct waveform *w, char *at)
{
    return (u64)(at - w->buffer) < w->limit ? at : flush(w, at);
}

static char *put_clock(const struct waveform *w, char *at, u64 time, char value)
{
    const struct variable *const clock = &w->variables[w->clock];
    at = put_time(at, time);
    *at++ = value;
    return put(at, clock->tail, clock->tail_length);
}

static void begin(struct waveform *w, u64 time)
{
    if (!w->count)
        return;
    char *at = put_time(w->buffer + w->used, time);
    memcpy(at, "$dumpvars\n", 10);
    at += 10;
    for (u64 i = 0; i < w->count; i++) {
        at = room(w, at);
        if (i == w->clock) {
            *at++ = '1';
            at = put(at, w->variables[i].tail, w->variables[i].tail_length);
        } else {
            at = put_variable(w, &w->variables[i], at, 1);
        }
    }
    memcpy(at, "$end\n", 5);
    w->used = (u64)(at + 5 - w->buffer);
}

// Marks what depends on what is in the list of changes.
static void mark(struct waveform *w)
{
    const u64 changes = U64(w->changes, 0);
    if (w->all || changes > U64(w->changes, 8)) {
        memset(w->marked, 0xff, 8 * ((w->count + 63) / 64));
        return;
    }
    for (u64 i = 0; i < changes; i++) {
        const u32 number = U32(w->changes, 16 + 4 * i);
        for (u32 at = w->first[number]; at < w->first[number + 1]; at++)
            w->marked[w->links[at].word] |= w->links[at].bits;
    }
}

static void sample(struct waveform *w, u64 time)
{
    char *at = room(w, w->buffer + w->used);
    int stamped = w->clock < w->count;
    if (stamped) {
        at = put_clock(w, at, w->time + w->period / 2, '0');
        at = put_clock(w, at, time, '1');
    }
    mark(w);
    for (u64 word = 0; word < (w->count + 63) / 64; word++) {
        u64 bits = w->marked[word];
        w->marked[word] = 0;
        for (; bits; bits &= bits - 1) {
            const u64 number = 64 * word + (u64)__builtin_ctzll(bits);
            if (number >= w->count || number == w->clock)
                continue;
            at = room(w, at);
            char *const start = stamped ? at : put_time(at, time);
            char *const end = put_variable(w, &w->variables[number], start, 0);
            if (end != start) {
                stamped = 1;
                at = end;
            }
        }
    }
    w->used = (u64)(at - w->buffer);
}

// Called when a cycle is left: records it, if it is in the window.
void leave(void *context)
{
    struct waveform *const w = context;
    const u64 time = (w->before + w->cycle++) * w->period;
    if (w->state == OVER)
        return;
    if (w->conditions && !reached(w->s, w->v, w->untils, w->conditions)) {
        if (w->state == RECORDING)
            w->state = OVER;
        return;
    }
    if (w->state == WAITING)
        begin(w, time);
    else
        sample(w, time);
    w->state = RECORDING;
    w->time = time;
    w->all = 0;
    U64(w->changes, 0) = 0;
}

// Writes what stands behind the last cycle.
void end(void *context)
{
    struct waveform *const w = context;
    char *at = room(w, w->buffer + w->used);
    const u64 time = w->time + w->period / 2;
    at = w->clock < w->count ? put_clock(w, at, time, '0') : put_time(at, time);
    flush(w, at);
}
