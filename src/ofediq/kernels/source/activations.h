/* Smooth activations and their slopes, a vector at a time; included where `struct layer` is known. */
#ifndef OFEDIQ_ACTIVATIONS_H
#define OFEDIQ_ACTIVATIONS_H

/* tanh(4 y) from Lambert's fraction for tanh(y), cut after seven terms and doubled twice. Beyond 9 it is 1 in single
 * precision. */
INLINE vec tanh_of(vec x) {
    x = maximum(spread(-9), x); /* in this order a NaN passes */
    x = -maximum(spread(-9), -x);
    vec y = x * 0.25f, s = y * y;
    vec above = y * (s * (s * (s + 378) + 17325) + 135135);
    vec below = s * (s * (s * 28 + 3150) + 62370) + 135135;
    vec t = above / below;
    t = 2 * t / (1 + t * t);
    return 2 * t / (1 + t * t);
}

/* e^x: x = n log 2 + r with a whole n, e^r by its series; the bits of n are added to the exponent. Cut off where single
 * precision ends. */
INLINE vec exp_of(vec x) {
    const float shift = 12582912; /* 1.5 x 2^23: its last bit counts ones */
    x = maximum(spread(-87), x); /* in this order a NaN passes */
    x = -maximum(spread(-88), -x);
    vec moved = x * 1.44269504f + shift, n = moved - shift;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec sum = spread(1.f / 5040);
    sum = sum * r + 1.f / 720;
    sum = sum * r + 1.f / 120;
    sum = sum * r + 1.f / 24;
    sum = sum * r + 1.f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1;
    sum = sum * r + 1;
    return (vec)((ivec)sum + ((ivec)moved << 23));
}

INLINE vec either(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }

INLINE vec absolute(vec x) { return (vec)((ivec)x & 0x7FFFFFFF); }

INLINE vec sigmoid_of(vec x) { return 1 / (1 + exp_of(-x)); }

/* Whether a standard normal number lies below x, by Hastings' fraction, and its density there. */
INLINE vec normal_of(vec x, vec *density) {
    vec bell = exp_of(-0.5f * x * x), t = 1 / (1 + 0.231641888f * absolute(x));
    vec tail = t * 1.061405429f - 1.453152027f;
    tail = tail * t + 1.421413741f;
    tail = tail * t - 0.284496736f;
    tail = (tail * t + 0.254829592f) * t * bell * 0.5f;
    *density = 0.398942280f * bell;
    return either((ivec)(x > 0), 1 - tail, tail);
}

/* log(1 + e) for e between 0 and 1: twice the area tangent of e / (2 + e). */
INLINE vec log_of_one_and(vec e) {
    vec w = e / (2 + e), s = w * w, sum = spread(1.f / 15);
    for (int odd = 13; odd > 0; odd -= 2) sum = sum * s + 1.f / odd;
    return 2 * w * sum;
}

/* The activation of x and its slope there. */
INLINE vec bent(const struct layer *l, vec x, vec *slope) {
    vec one = spread(1), q, density;
    switch (l->activation) {
    case LEAKY:
        *slope = either((ivec)(x > 0), one, either((ivec)(x < 0), spread(l->slope), spread(l->corner)));
        return either((ivec)(x > 0), x, x * l->slope);
    case SIGMOID:
        q = sigmoid_of(x);
        *slope = q * (1 - q);
        return q;
    case SILU:
        q = sigmoid_of(x);
        *slope = q + x * q * (1 - q);
        return x * q;
    case GELU:
        q = normal_of(x, &density);
        *slope = q + x * density;
        return x * q;
    case GELU_TANH:
        q = tanh_of(0.797884561f * (x + 0.044715f * x * x * x));
        *slope = 0.5f * (1 + q + x * (1 - q * q) * 0.797884561f * (1 + 0.134145f * x * x));
        return 0.5f * x * (1 + q);
    case ELU:
        q = exp_of(x);
        *slope = either((ivec)(x > 0), one, q);
        return either((ivec)(x > 0), x, q - 1);
    default:
        *slope = sigmoid_of(x);
        return maximum((vec){0}, x) + log_of_one_and(exp_of(-absolute(x)));
    }
}

#endif
