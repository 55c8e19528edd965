// What the C text of every design stands on.
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

#define U8(base, offset) (*(u8 *)((base) + (offset)))
#define U16(base, offset) (*(u16 *)((base) + (offset)))
#define U32(base, offset) (*(u32 *)((base) + (offset)))
#define U64(base, offset) (*(u64 *)((base) + (offset)))
#define SIGNED(value, width) ((i64)((u64)(value) << (64 - (width))) >> (64 - (width)))

// Words of `v` that wake places; see program.py.
#define AWAKE(word) U64(v, 8 * (word))

// A value that may be 1, 2, 4 or 8 bytes long.
static inline u64 load(const u8 *at, u32 size)
{
    switch (size) {
    case 1: return *at;
    case 2: return *(const u16 *)at;
    case 4: return *(const u32 *)at;
    default: return *(const u64 *)at;
    }
}

static inline void store(u8 *at, u32 size, u64 value)
{
    switch (size) {
    case 1: *at = (u8)value; break;
    case 2: *(u16 *)at = (u16)value; break;
    case 4: *(u32 *)at = (u32)value; break;
    default: *(u64 *)at = value;
    }
}

static inline i64 sdiv(i64 a, i64 b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (i64)(0 - (u64)a);
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static inline i64 smod(i64 a, i64 b)
{
    if (b == 0 || b == -1)
        return 0;
    i64 rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// 64 bits of `count` limbs from bit `offset` on: zeros below, `fill` above.
static inline u64 window(i64 offset, u32 fill, int count, const u64 *limbs)
{
    const u64 above = fill ? ~0ull : 0;
    if (offset <= -64)
        return 0;
    if (offset < 0)
        return limbs[0] << -offset;
    const u64 at = (u64)offset / 64, bit = (u64)offset % 64;
    const u64 low = at < (u64)count ? limbs[at] : above;
    if (!bit)
        return low;
    const u64 high = at + 1 < (u64)count ? limbs[at + 1] : above;
    return low >> bit | high << (64 - bit);
}

static inline u64 mul_limb(int count, int limb, const u64 *a, const u64 *b)
{
    u64 carry = 0, high = 0, low = 0;
    for (int at = 0; at <= limb; at++) {
        low = carry;
        carry = high;
        high = 0;
        for (int i = 0; i <= at && i < count; i++) {
            if (at - i >= count)
                continue;
            const unsigned __int128 product = (unsigned __int128)a[i] * b[at - i];
            const u64 before = low;
            low += (u64)product;
            const unsigned __int128 sum = (unsigned __int128)carry + (u64)(product >> 64) + (low < before);
            carry = (u64)sum;
            high += (u64)(sum >> 64);
        }
    }
    return low;
}

// kind: 0 quotient, 1 signed quotient, 2 remainder, 3 signed remainder; rounded down; 0 when b is 0.
static u64 __attribute__((unused)) div_limb(int count, int kind, int limb, const u64 *a, const u64 *b)
{
    u64 n[count], d[count], q[count], r[count];
    u64 any = 0;
    const int is_signed = kind & 1;
    const int negative_a = is_signed && a[count - 1] >> 63, negative_b = is_signed && b[count - 1] >> 63;
    u64 carry_a = 1, carry_b = 1;
    for (int i = 0; i < count; i++) {
        any |= b[i];
        n[i] = negative_a ? ~a[i] + carry_a : a[i];
        carry_a = carry_a && n[i] == 0;
        d[i] = negative_b ? ~b[i] + carry_b : b[i];
        carry_b = carry_b && d[i] == 0;
        q[i] = r[i] = 0;
    }
    if (!any)
        return 0;
    for (int bit = 64 * count - 1; bit >= 0; bit--) {
        const u64 top = r[count - 1] >> 63;
        for (int i = count - 1; i > 0; i--)
            r[i] = r[i] << 1 | r[i - 1] >> 63;
        r[0] = r[0] << 1 | (n[bit / 64] >> bit % 64 & 1);
        int less = 0;
        for (int i = count - 1; i >= 0 && !top; i--)
            if (r[i] != d[i]) {
                less = r[i] < d[i];
                break;
            }
        if (less)
            continue;
        u64 borrow = 0;
        for (int i = 0; i < count; i++) {
            const u64 value = r[i] - d[i] - borrow;
            borrow = r[i] < d[i] || (r[i] == d[i] && borrow);
            r[i] = value;
        }
        q[bit / 64] |= 1ull << bit % 64;
    }
    u64 rest = 0;
    for (int i = 0; i < count; i++)
        rest |= r[i];
    const int adjust = rest && negative_a != negative_b;
    if (kind < 2) {
        // -(q) or -(q + 1): complement of q when adjusted.
        if (negative_a == negative_b)
            return q[limb];
        u64 carry = !adjust;
        for (int i = 0; i <= limb; i++) {
            q[i] = ~q[i] + carry;
            carry = carry && q[i] == 0;
        }
        return q[limb];
    }
    // The remainder has the sign of a; b is added when the signs differ.
    u64 carry = 1, sum_carry = 0;
    for (int i = 0; i <= limb; i++) {
        u64 value = negative_a ? ~r[i] + carry : r[i];
        carry = carry && value == 0;
        if (adjust) {
            const unsigned __int128 sum = (unsigned __int128)value + b[i] + sum_carry;
            value = (u64)sum;
            sum_carry = (u64)(sum >> 64);
        }
        r[i] = value;
    }
    return r[limb];
}

// Messages of Print and properties: pointer, words used, words there are, words lost.
static void __attribute__((unused)) report(u8 *messages, u32 check, u32 count, const u64 *values)
{
    u64 *const words = *(u64 **)messages;
    const u64 used = U64(messages, 8);
    if (used + count + 1 > U64(messages, 16)) {
        U64(messages, 24) += count + 1;
        return;
    }
    words[used] = check;
    memcpy(words + used + 1, values, 8 * count);
    U64(messages, 8) = used + count + 1;
}

struct wake {
    u32 word;
    u64 bits;
};

struct element {
    u32 offset;
    u32 size;
    u32 first;
    u32 wakes;
};

struct reset {
    u32 element;
    u64 init;
};

// Notes a change in a list: its length, its capacity, numbers. One too long counts on.
static inline void changed(u8 *list, u32 number)
{
    const u64 at = U64(list, 0)++;
    if (at < U64(list, 8))
        U32(list, 16 + 4 * at) = number;
}

extern const struct element elements[];

// Sets a register or an input.
static inline void set(u8 *s, u8 *v, const struct element *element, const struct wake *wakes, u64 value)
{
    if (load(s + element->offset, element->size) == value)
        return;
    store(s + element->offset, element->size, value);
    for (u32 i = 0; i < element->wakes; i++)
        AWAKE(wakes[element->first + i].word) |= wakes[element->first + i].bits;
#ifdef CHANGES
    changed(v + CHANGES, (u32)(element - elements));
#endif
}

// What a run waits for: part of a value; `equal` says whether it shall be `value` or differ.
// With `more`, the next one has to hold, too; otherwise that is another reason to stop.
struct until {
    u64 area;
    u64 offset;
    u64 size;
    u64 shift;
    u64 mask;
    u64 value;
    u64 equal;
    u64 more;
};

static inline int reached(const u8 *s, const u8 *v, const struct until *until, u64 count)
{
    int together = 1;
    for (u64 i = 0; i < count; i++) {
        const u8 *const at = (until[i].area ? v : s) + until[i].offset;
        const u64 value = load(at, (u32)until[i].size) >> until[i].shift & until[i].mask;
        together &= (value == until[i].value) == until[i].equal;
        if (!until[i].more) {
            if (together)
                return 1;
            together = 1;
        }
    }
    return 0;
}
