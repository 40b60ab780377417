/* Images, filters and maps as frameworks keep them, and many convolutions at once: whole ones go into `patches.h` and `depthwise.h`.
 *
 * Images [images][sides][channels] or [images][channels][sides], with zeros around them; maps in the same order; filters
 * [places][channels of a group][units of all], or [units of all][channels of a group][places]. Each of the three has
 * leading axes, of which one of length 1 goes with any other.
 */
#ifndef OFEDIQ_PLANES_H
#define OFEDIQ_PLANES_H

#include "depthwise.h"
#include "samples.h" /* what lends memory */

enum { SIDES = 3, MOST_AXES = 8 };

struct array {
    const float *from;
    int64_t numbers, steps[MOST_AXES];
};

struct planes { /* a job: one task is one result */
    struct patches p;
    int64_t images, channels, sides[SIDES], before[SIDES], after[SIDES];
    int first, filters_first; /* whether channels, or units, come in front */
    int axes;
    int64_t lengths[MOST_AXES]; /* of the leading axes */
    struct array given[3];      /* by kind; two of them */
    float *results;
    size_t room; /* floats of a worker's scratch */
    float *scratch, *packed; /* packed: filters that all have in common; NULL: each packs its own */
};

static const float *row_of(const struct planes *s, int kind, int64_t task) {
    int64_t at = 0;
    for (int axis = s->axes - 1; axis >= 0; task /= s->lengths[axis], axis--)
        at += task % s->lengths[axis] * s->given[kind].steps[axis];
    return s->given[kind].from + at * s->given[kind].numbers;
}

INLINE int64_t padded(const struct planes *s, int axis) { return s->before[axis] + s->sides[axis] + s->after[axis]; }
INLINE int64_t side_numbers(const struct planes *s) { return s->sides[0] * s->sides[1] * s->sides[2]; }
INLINE int64_t whole_numbers(const struct planes *s) {
    return s->images * padded(s, 0) * padded(s, 1) * padded(s, 2) * s->channels;
}
INLINE int64_t map_numbers(const struct planes *s) { return s->p.positions * s->p.groups * s->p.units; }
INLINE int64_t filter_numbers(const struct planes *s) { return patch_taps(&s->p) * s->p.groups * s->p.units; }
INLINE int is_whole(const struct planes *s) {
    int margins = 0;
    for (int axis = 0; axis < SIDES; axis++) margins |= s->before[axis] || s->after[axis];
    return !s->first && !margins;
}

/* Rows of an image between its own order and that with zeros around and channels last. */
static void move_image(const struct planes *s, float *whole, float *own, int out) {
    int64_t channels = s->channels, width = s->sides[2], plane = side_numbers(s);
    for (int64_t image = 0; image < s->images; image++)
        for (int64_t z = 0; z < s->sides[0]; z++)
            for (int64_t y = 0; y < s->sides[1]; y++) {
                int64_t above = (image * padded(s, 0) + s->before[0] + z) * padded(s, 1) + s->before[1] + y;
                float *row = whole + (above * padded(s, 2) + s->before[2]) * channels;
                float *mine = own + (s->first ? image * channels * plane + (z * s->sides[1] + y) * width
                                              : (image * plane + (z * s->sides[1] + y) * width) * channels);
                if (s->first && out)
                    transpose(mine, plane, row, channels, width, channels);
                else if (s->first)
                    transpose(row, channels, mine, plane, channels, width);
                else
                    memcpy(out ? mine : row, out ? row : mine, width * channels * sizeof(float));
            }
}

static const float *image_in(const struct planes *s, const float *image, float *whole) {
    if (is_whole(s)) return image;
    memset(whole, 0, whole_numbers(s) * sizeof(float));
    move_image(s, whole, (float *)image, 0);
    return whole;
}

/* Maps with channels last, from or to their own order. */
static void turn_maps(const struct planes *s, const float *from, float *to, int out) {
    size_t positions = s->p.positions / s->images, units = s->p.groups * s->p.units;
    for (int64_t image = 0; image < s->images; image++, from += positions * units, to += positions * units) {
        if (out)
            transpose(to, positions, from, units, positions, units);
        else
            transpose(to, units, from, positions, units, positions);
    }
}

static const float *maps_in(const struct planes *s, const float *maps, float *turned) {
    if (!s->first) return maps;
    turn_maps(s, maps, turned, 0);
    return turned;
}

/* Filters [units][channels][places] as [places][channels][units], by way of [units][places][channels]; and back. */
static void filters_in(const struct planes *s, const float *filters, float *between, float *to) {
    size_t units = s->p.groups * s->p.units, given = s->channels / s->p.groups, taps = patch_taps(&s->p);
    size_t places = taps / given;
    for (size_t unit = 0; unit < units; unit++)
        transpose(between + unit * taps, given, filters + unit * taps, places, given, places);
    transpose(to, units, between, taps, units, taps);
}

static void filters_out(const struct planes *s, const float *filters, float *between, float *to) {
    size_t units = s->p.groups * s->p.units, given = s->channels / s->p.groups, taps = patch_taps(&s->p);
    size_t places = taps / given;
    transpose(between, taps, filters, units, taps, units);
    for (size_t unit = 0; unit < units; unit++)
        transpose(to + unit * taps, places, between + unit * taps, given, places, given);
}

/* `spare` has room for the filters twice. */
static void pack_any(const struct planes *s, const float *filters, float *spare, float *packed) {
    if (s->filters_first) {
        filters_in(s, filters, spare, spare + filter_numbers(s));
        filters = spare + filter_numbers(s);
    }
    if (is_depthwise(&s->p))
        memcpy(packed, filters, filter_numbers(s) * sizeof(float));
    else
        pack_filters(&s->p, filters, packed);
}

static void any_maps(const struct patches *p, const float *image, const float *packed, float *maps) {
    (is_depthwise(p) ? deep_maps : make_maps)(p, image, packed, maps);
}

static void any_image(const struct patches *p, const float *maps, const float *packed, float *image) {
    (is_depthwise(p) ? deep_image : make_image)(p, maps, packed, image);
}

static void any_filters(const struct patches *p, const float *image, const float *maps, float *filters, float *kept) {
    if (is_depthwise(p))
        deep_filters(p, image, maps, filters);
    else
        make_filters(p, image, maps, filters, kept);
}

/* Where things lie in a worker's scratch; `spare` is room for filters twice, or for the maps of a group. */
struct desk {
    float *packed, *whole, *maps, *spare, *made;
};

static size_t lay_desk(const struct planes *s, float *base, struct desk *d) {
    int kind = s->p.kind, whole = kind == IMAGES || !is_whole(s);
    size_t filters = 2 * filter_numbers(s), kept = kind == FILTERS ? s->p.positions * wide_units(&s->p) : 0, used = 0;
    used = take(&d->packed, base, used, packed_floats(&s->p));
    used = take(&d->whole, base, used, whole ? whole_numbers(s) + wide_run(&s->p) : 0);
    used = take(&d->maps, base, used, s->first ? map_numbers(s) : 0);
    used = take(&d->spare, base, used, filters > kept ? filters : kept);
    return take(&d->made, base, used, kind == FILTERS ? filter_numbers(s) : 0);
}

static void one_of_planes(void *job, int worker, int task) {
    const struct planes *s = job;
    const struct patches *p = &s->p;
    struct desk d;
    lay_desk(s, s->scratch + worker * s->room, &d);
    const float *packed = s->packed ? s->packed : d.packed;
    if (p->kind != FILTERS && !s->packed) pack_any(s, row_of(s, FILTERS, task), d.spare, d.packed);
    const float *image = p->kind == IMAGES ? NULL : image_in(s, row_of(s, IMAGES, task), d.whole);
    const float *maps = p->kind == MAPS ? NULL : maps_in(s, row_of(s, MAPS, task), d.maps);
    if (p->kind == MAPS) {
        float *result = s->results + task * map_numbers(s);
        any_maps(p, image, packed, s->first ? d.maps : result);
        if (s->first) turn_maps(s, d.maps, result, 1);
    } else if (p->kind == IMAGES) {
        memset(d.whole, 0, (whole_numbers(s) + wide_run(p)) * sizeof(float));
        any_image(p, maps, packed, d.whole);
        move_image(s, d.whole, s->results + task * s->images * s->channels * side_numbers(s), 1);
    } else {
        float *result = s->results + task * filter_numbers(s);
        any_filters(p, image, maps, s->filters_first ? d.made : result, d.spare);
        if (s->filters_first) filters_out(s, d.made, d.spare, result);
    }
}

/* `count` results by so many threads. Returns 0, or 1 if there is no memory. */
static int run_planes(struct planes *s, int64_t count, int threads) {
    struct desk d;
    int common = s->p.kind != FILTERS;
    for (int axis = 0; axis < s->axes; axis++) common &= s->given[FILTERS].steps[axis] == 0;
    s->room = lay_desk(s, NULL, &d);
    threads = worth(threads, (double)count * s->p.positions * patch_taps(&s->p) * s->p.units / 16, (int)count);
    s->scratch = borrow((threads * s->room + room(packed_floats(&s->p))) * sizeof(float));
    if (!s->scratch) return 1;
    if (common) {
        lay_desk(s, s->scratch, &d);
        s->packed = s->scratch + threads * s->room;
        pack_any(s, s->given[FILTERS].from, d.spare, s->packed);
    }
    run_tasks(one_of_planes, s, (int)count, threads);
    give_back(s->scratch);
    return 0;
}

#endif
