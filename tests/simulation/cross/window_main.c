/* One window from a file: for kernels on processors that only an emulator has here. The numbers come first, then the
 * arrays in the order of `struct window`; the sums of the updates go to standard output. */
#include "window.c"

#include <stdio.h>

static void *next(FILE *file, size_t bytes) {
    void *memory = aligned_alloc(64, rounded_up(bytes + 64, 64)); /* kernels may touch a vector past the end */
    if (!memory || fread(memory, 1, bytes, file) != bytes) exit(2);
    return memory;
}

int main(int count, char **words) {
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
    if (!file) return 2;
    enum { STAGES, REGRESSION, STEPS, CLIENTS, MOVES, LEVELS, BLOCKS, DIM, FEATURES, SAMPLES, NUMBERS };
    const int32_t *n = next(file, NUMBERS * sizeof(int32_t));
    const float *factors = next(file, 2 * sizeof(float)); /* step size, penalty */
    struct window w = {.model = {next(file, n[STAGES] * sizeof(struct stage)), NULL, n[STAGES], n[REGRESSION],
                                 factors[1]},
                       .steps = n[STEPS], .clients = n[CLIENTS], .threads = 2, .moves = n[MOVES],
                       .step_size = factors[0], .windows = 1, .seed = 3, .features = n[FEATURES],
                       .sending = {.form = n[LEVELS] ? QUANTIZED : PLAIN, .levels = n[LEVELS], .blocks = n[BLOCKS]}};
    w.params = next(file, n[DIM] * sizeof(float));
    w.samples = next(file, (size_t)n[SAMPLES] * n[FEATURES] * sizeof(float));
    w.targets = next(file, n[SAMPLES] * sizeof(int32_t));
    w.order = next(file, (size_t)n[STEPS] * n[CLIENTS] * sizeof(int32_t));
    w.sends = next(file, n[CLIENTS]);
    w.rates = next(file, n[CLIENTS] * sizeof(float));
    w.scratch = aligned_alloc(64, rounded_up(scratch_floats(&w.model, w.clients, w.threads) * sizeof(float) + 64, 64));
    w.losses = calloc((size_t)slots_of(&w.model, w.clients) * w.steps, sizeof(double));
    w.errors = calloc((size_t)slots_of(&w.model, w.clients) * w.steps, sizeof(double));
    w.squares = calloc(1, sizeof(double));
    w.total = calloc(n[DIM] + 16, sizeof(float));
    w.ends = (const uint32_t[]){7};
    if (run_windows(&w)) return 1;
    return fwrite(w.total, sizeof(float), n[DIM], stdout) != (size_t)n[DIM];
}
