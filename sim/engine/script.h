// Several things that a host does, in one call; see script.py. MESSAGES says whether any wait.
enum { POKE, STEP, UNTIL, PEEK };
enum { DONE, MISSED, INTERRUPTED };

struct operation {
    u64 kind;
    u64 element;
    u64 index;
    u64 position;
    struct until part;
};

struct script {
    u64 cycles; // that the last call took
    u64 at;     // where it was interrupted; a new run begins at 0
    u64 left;   // cycles of the operation that was interrupted, plus 1
    u8 *s;
    u8 *v;
    u64 count;
    const struct operation *operations;
    u64 *values;
};

static inline u64 perform(u8 *restrict s, u8 *restrict v, struct script *script)
{
    for (; script->at < script->count; script->at++) {
        const struct operation *const op = &script->operations[script->at];
        const struct until *const part = &op->part;
        u64 *const value = &script->values[op->index];
        if (op->kind == POKE) {
            const u64 before = load(s + part->offset, (u32)part->size);
            const u64 bits = (*value >> op->position & part->mask) << part->shift;
            poke(s, v, op->element, (before & ~(part->mask << part->shift)) | bits);
        } else if (op->kind == PEEK) {
            settle(s, v);
            const u8 *const at = (part->area ? v : s) + part->offset;
            const u64 whole = part->size ? load(at, (u32)part->size) : part->value;
            const u64 bits = (whole >> part->shift & part->mask) << op->position;
            *value = op->position ? *value | bits : bits;
        } else {
            const u64 cycles = script->left ? script->left - 1 : *value;
            const u64 terms = op->kind == UNTIL;
            const u64 done = run(s, v, cycles, part, terms, 0, 0);
            script->cycles += done;
            script->left = cycles - done + 1;
            if (!terms || !reached(s, v, part, 1)) {
                if (MESSAGES)
                    return INTERRUPTED;
                if (terms)
                    return MISSED;
            }
            script->left = 0;
        }
    }
    settle(s, v);
    return MESSAGES ? INTERRUPTED : DONE;
}

u64 script(struct script *script)
{
    script->cycles = 0;
    const u64 end = perform(script->s, script->v, script);
    if (end != INTERRUPTED)
        script->at = script->left = 0;
    return end;
}
