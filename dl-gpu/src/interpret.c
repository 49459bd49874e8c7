// A program that is interpreted. Instructions have eight bits each for the operation and its
// operands: from 0 on unary operations, from 64 on binary ones, from 128 on comparisons and those
// below.
typedef struct {
    Shape shape;
    int operands;
    int results;
    int instructions;
    int unused;
    uint code[DL_INSTRUCTIONS];
    uint stored[DL_PLACES];
    T numbers[DL_NUMBERS];
    Place places[DL_PLACES];
} Program;
#define MEMORY DL_GLOBAL T *m0, DL_GLOBAL T *m1, DL_GLOBAL T *m2, DL_GLOBAL T *m3, DL_GLOBAL T *m4, DL_GLOBAL T *m5
DL_KERNEL dl_interpret(MEMORY, DL_TABLE) {
    DL_GLOBAL const Program *program = DL_ARGUMENT(Program);
    ulong i = DL_INDEX;
    if (i >= program->shape.len) return;
    DL_GLOBAL T *memory[DL_PLACES] = {m0, m1, m2, m3, m4, m5};
    T values[DL_INSTRUCTIONS];
    for (int at = 0; at < program->instructions; ++at) {
        uint code = program->code[at], op = code & 255, left = (code >> 8) & 255, right = (code >> 16) & 255, last = code >> 24;
        T value;
        switch (op) {
            DL_CASES
            case DL_LOAD: {
                DL_GLOBAL const Place *place = &program->places[left];
                value = dl_load(memory[left], place->format, dl_at(&program->shape, place, i));
                break;
            }
            case DL_POSITION: value = (T)dl_index(&program->shape, left, i); break;
            case DL_SELECT: value = values[left] != ZERO ? values[right] : values[last]; break;
            default: value = program->numbers[left];
        }
        values[at] = value;
    }
    for (int result = 0; result < program->results; ++result) {
        DL_GLOBAL const Place *place = &program->places[program->operands + result];
        T value = values[program->stored[result]];
        dl_store(memory[program->operands + result], place->format, dl_at(&program->shape, place, i), value);
    }
}
