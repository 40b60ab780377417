/* Calls inside programs of XLA, where its headers are. Arguments of `samples.h`, all in row-major order:
 *
 *     numbers: int32 [4 + 10 stages]: regression, threads, the bits of the penalty, whether gradients are added up;
 *              then the stages
 *     places:  int32 [dim], or [0] where the flat order is layer by layer
 *     params:  float32 [dim] or [count, dim];  samples [count, features];  targets [count];  weights [count] or [0]
 *
 * Results: losses [count], errors [count], and gradients: [count, dim], [dim], or [0] if nobody asks for them.
 */
#if !defined(OFEDIQ_XLA_H) && defined(__has_include)
#if __has_include("xla/ffi/api/c_api.h")
#define OFEDIQ_XLA_H

#include "hadamard.h"
#include "largest.h"
#include "planes.h"
#include "sums.h"
#include "xla/ffi/api/c_api.h"

enum { HEAD_NUMBERS = 4, STAGE_NUMBERS = sizeof(struct stage) / sizeof(int32_t) };

static int64_t buffer_size(const XLA_FFI_Buffer *buffer) {
    int64_t size = 1;
    for (int64_t axis = 0; axis < buffer->rank; axis++) size *= buffer->dims[axis];
    return size;
}

static XLA_FFI_Error *refuse(const XLA_FFI_CallFrame *frame, const char *message) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message,
                                      XLA_FFI_Error_Code_INVALID_ARGUMENT};
    return frame->api->XLA_FFI_Error_Create(&args);
}

/* Whether XLA only asks which version of its interface this is. */
static int is_question(const XLA_FFI_CallFrame *frame) {
    if (!frame->extension_start || frame->extension_start->type != XLA_FFI_Extension_Metadata) return 0;
    XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)frame->extension_start)->metadata;
    about->api_version.major_version = XLA_FFI_API_MAJOR;
    about->api_version.minor_version = XLA_FFI_API_MINOR;
    return 1;
}

API XLA_FFI_Error *samples_in_xla(XLA_FFI_CallFrame *frame) {
    if (is_question(frame)) return NULL;
    if (frame->args.size != 6 || frame->rets.size != 3) return refuse(frame, "six arguments and three results belong");
    const XLA_FFI_Buffer **in = (const XLA_FFI_Buffer **)frame->args.args;
    XLA_FFI_Buffer **out = (XLA_FFI_Buffer **)frame->rets.rets;
    const int32_t *numbers = in[0]->data;
    int64_t count = buffer_size(in[4]), found = buffer_size(out[2]);
    if (!count) return NULL;
    struct samples s = {
        .model = {(const struct stage *)(numbers + HEAD_NUMBERS), buffer_size(in[1]) ? in[1]->data : NULL,
                  (int32_t)((buffer_size(in[0]) - HEAD_NUMBERS) / STAGE_NUMBERS), numbers[0],
                  from_bits((uint32_t)numbers[2])},
        .count = count, .features = buffer_size(in[3]) / count, .threads = numbers[1], .each = !numbers[3],
        .own = in[2]->rank == 2, .params = in[2]->data, .xs = in[3]->data, .weights = in[5]->data,
        .targets = in[4]->data, .losses = out[0]->data, .errors = out[1]->data,
        .gradients = found ? out[2]->data : NULL,
    };
    struct network network;
    if (!make(&s.model, &network)) return refuse(frame, "no network that the kernels know");
    int64_t dim = (int64_t)network.dim;
    if (buffer_size(in[2]) != (s.own ? count * dim : dim) || (found && found != (s.each ? count * dim : dim)) ||
        (buffer_size(in[1]) && buffer_size(in[1]) != dim) || (!s.each && buffer_size(in[5]) != count))
        return refuse(frame, "sizes of the arguments do not fit the network");
    return run_samples(&s) ? refuse(frame, "the kernels cannot run these samples, or there is no memory") : NULL;
}

/* Arguments: vectors float32 [rows, dim], and how many threads, int32 [1]; result: int32 [rows, keep]. */
API XLA_FFI_Error *largest_in_xla(XLA_FFI_CallFrame *frame) {
    if (is_question(frame)) return NULL;
    if (frame->args.size != 2 || frame->rets.size != 1) return refuse(frame, "two arguments and one result belong");
    const XLA_FFI_Buffer *vectors = frame->args.args[0], *threads = frame->args.args[1], *where = frame->rets.rets[0];
    if (vectors->rank != 2 || where->rank != 2 || where->dims[0] != vectors->dims[0] || where->dims[1] < 1 ||
        where->dims[1] > vectors->dims[1])
        return refuse(frame, "sizes of vectors and result do not fit");
    struct largest l = {vectors->data, vectors->dims[1], where->dims[1], where->data, 0};
    run_tasks(largest_of_row, &l, (int)vectors->dims[0], *(const int32_t *)threads->data);
    return l.failed ? refuse(frame, "there is no memory") : NULL;
}

/* Arguments: rows float32 [rows, size], and how many threads, int32 [1]; result: rows of the same shape. */
API XLA_FFI_Error *hadamard_in_xla(XLA_FFI_CallFrame *frame) {
    if (is_question(frame)) return NULL;
    if (frame->args.size != 2 || frame->rets.size != 1) return refuse(frame, "two arguments and one result belong");
    const XLA_FFI_Buffer *rows = frame->args.args[0], *threads = frame->args.args[1], *made = frame->rets.rets[0];
    if (rows->rank != 2 || made->rank != 2 || rows->dims[0] != made->dims[0] || rows->dims[1] != made->dims[1] ||
        rows->dims[1] < 1 || rows->dims[1] & (rows->dims[1] - 1))
        return refuse(frame, "rows must have the length of a power of two, like the result's");
    struct hadamard h = {rows->data, made->data, rows->dims[1], (float)(1 / sqrt((double)rows->dims[1]))};
    run_tasks(hadamard_row, &h, (int)rows->dims[0], *(const int32_t *)threads->data);
    return NULL;
}

/* Arguments: symbols int32 [rows, dim], and how many threads, int32 [1]; result: how often each class of magnitudes
 * occurs, int32 [rows, classes], as many as the alphabet has. */
API XLA_FFI_Error *counts_in_xla(XLA_FFI_CallFrame *frame) {
    if (is_question(frame)) return NULL;
    if (frame->args.size != 2 || frame->rets.size != 1) return refuse(frame, "two arguments and one result belong");
    const XLA_FFI_Buffer *symbols = frame->args.args[0], *threads = frame->args.args[1], *made = frame->rets.rets[0];
    if (symbols->rank != 2 || made->rank != 2 || symbols->dims[0] != made->dims[0] || made->dims[1] < 1 ||
        made->dims[1] > CLASSES)
        return refuse(frame, "sizes of symbols and result do not fit");
    struct counting c = {symbols->data, symbols->dims[1], (int)made->dims[1], made->data};
    run_tasks(count_row, &c, (int)symbols->dims[0], *(const int32_t *)threads->data);
    return NULL;
}

/* Leading axes of `given`, of which the last `own` axes are one array, beside those of the result. */
static int take_array(const XLA_FFI_Buffer *given, int own, const struct planes *s, struct array *a) {
    if (given->rank - own != s->axes) return 0;
    a->from = given->data, a->numbers = 1;
    for (int64_t axis = s->axes; axis < given->rank; axis++) a->numbers *= given->dims[axis];
    int64_t step = 1;
    for (int axis = s->axes - 1; axis >= 0; step *= given->dims[axis], axis--) {
        if (given->dims[axis] != s->lengths[axis] && given->dims[axis] != 1) return 0;
        a->steps[axis] = given->dims[axis] == 1 ? 0 : step;
    }
    return 1;
}

/* Convolutions of `planes.h`. Arguments:
 *
 *     numbers: int32 [18]: threads, which kind is asked for, images, channels, groups, units of each, numbers in a run,
 *              whether channels come first, whether units do in filters; sides, zeros before, zeros behind
 *     starts:  int32 [positions];  offsets: int32 [runs]
 *     maps, images, filters: the two that are given, each [numbers] behind leading axes
 *
 * Result: the third. */
API XLA_FFI_Error *planes_in_xla(XLA_FFI_CallFrame *frame) {
    if (is_question(frame)) return NULL;
    if (frame->args.size != 5 || frame->rets.size != 1) return refuse(frame, "five arguments and one result belong");
    const XLA_FFI_Buffer **in = (const XLA_FFI_Buffer **)frame->args.args;
    const XLA_FFI_Buffer *made = frame->rets.rets[0];
    if (buffer_size(in[0]) != 9 + 3 * SIDES) return refuse(frame, "numbers do not fit");
    const int32_t *n = in[0]->data;
    struct planes s = {.p = {n[1], buffer_size(in[1]), buffer_size(in[2]), n[6], n[4], n[5], in[1]->data, in[2]->data},
                       .images = n[2], .channels = n[3], .first = n[7], .filters_first = n[8],
                       .axes = (int)made->rank - 1, .results = made->data};
    for (int axis = 0; axis < SIDES; axis++)
        s.sides[axis] = n[9 + axis], s.before[axis] = n[9 + SIDES + axis], s.after[axis] = n[9 + 2 * SIDES + axis];
    if (s.p.kind < MAPS || s.p.kind > FILTERS || s.axes < 0 || s.axes > MOST_AXES) return refuse(frame, "too many axes");
    int64_t count = 1, sizes[] = {map_numbers(&s), s.images * s.channels * side_numbers(&s), filter_numbers(&s)};
    for (int axis = 0; axis < s.axes; axis++) count *= s.lengths[axis] = made->dims[axis];
    for (int kind = MAPS, at = 3; kind <= FILTERS; kind++) {
        if (kind == s.p.kind) continue;
        if (!take_array(in[at++], 1, &s, s.given + kind) || s.given[kind].numbers != sizes[kind])
            return refuse(frame, "sizes of the arrays do not fit");
    }
    if (buffer_size(made) != count * sizes[s.p.kind]) return refuse(frame, "sizes of the result do not fit");
    if (!buffer_size(made)) return NULL;
    return run_planes(&s, count, n[0]) ? refuse(frame, "there is no memory") : NULL;
}

/* Arguments: numbers float32 [outer, count, inner], and how many threads, int32 [1]; result: [outer, inner]. */
API XLA_FFI_Error *sums_in_xla(XLA_FFI_CallFrame *frame) {
    if (is_question(frame)) return NULL;
    if (frame->args.size != 2 || frame->rets.size != 1) return refuse(frame, "two arguments and one result belong");
    const XLA_FFI_Buffer *from = frame->args.args[0], *threads = frame->args.args[1], *to = frame->rets.rets[0];
    if (from->rank != 3 || to->rank != 2 || from->dims[0] != to->dims[0] || from->dims[2] != to->dims[1])
        return refuse(frame, "sizes of numbers and sums do not fit");
    struct adding a = {from->data, to->data, from->dims[0], from->dims[1], from->dims[2], 0, 0};
    if (buffer_size(to)) run_adding(&a, *(const int32_t *)threads->data);
    return NULL;
}

#endif
#endif
