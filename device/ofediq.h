/* A client of ofediq for devices too small for Python: C99, no dependencies, no malloc, no flash writes.
 *
 * `ofediq export --device federation.toml` writes ofediq_config.h, which sizes everything. The network is yours:
 * subscribe to the topics below, hand over what arrives, publish what is returned, with QoS 1.
 *
 *     <federation>/task, retained        -> ofediq_task       is this firmware made for it?
 *     <federation>/welcome/<name>        -> ofediq_welcome    the client's number
 *     <federation>/model, retained       \
 *     <federation>/d                      > ofediq_model      a round opens
 *     <federation>/whole/<name>          /
 *     a sample, labelled                 -> ofediq_learn      at the end of a window there may be something to say
 *
 *     OFEDIQ_SAY      publish client.said, client.said_bytes on <federation>/u/<name>
 *     OFEDIQ_GREET    publish OFEDIQ_HERE on <federation>/here/<name>, retained; also after every connection
 */
#ifndef OFEDIQ_H
#define OFEDIQ_H

#include <stddef.h>
#include <stdint.h>

#define OFEDIQ_RAW 1
#define OFEDIQ_QUANTIZED 2
#define OFEDIQ_GRID 3
#define OFEDIQ_BERNOULLI 1
#define OFEDIQ_FIXED_SIZE 2
#define OFEDIQ_BY_NORM 3

#define OFEDIQ_BY_EVIDENCE 100 /* of naive forecasts: all of them, weighed; none; or the place of one */
#define OFEDIQ_NO_FORECAST 101

#include "ofediq_config.h"

#define OFEDIQ_AS_TEXT(number) #number
#define OFEDIQ_SAYS(number, online) "{\"protocol\":" OFEDIQ_AS_TEXT(number) ",\"online\":" online "}"
#define OFEDIQ_HERE OFEDIQ_SAYS(OFEDIQ_PROTOCOL, "true")
#define OFEDIQ_GONE OFEDIQ_SAYS(OFEDIQ_PROTOCOL, "false") /* the last will on <federation>/here/<name>, retained */

/* Bits of what a call returns; negative values are errors, after which everything is as before. */
enum {
  OFEDIQ_NOTHING = 0,
  OFEDIQ_SAY = 1,
  OFEDIQ_GREET = 2,
  OFEDIQ_NOT_UNDERSTOOD = -1, /* damaged, of another version, or out of range */
  OFEDIQ_OTHER_TASK = -2,     /* the federation runs something that this firmware was not made for */
  OFEDIQ_NO_MODEL = -3        /* nothing can be predicted or learnt yet */
};

#define OFEDIQ_FEW 257 /* runs of a model of symbols, see the source */

typedef struct {
  uint32_t first, start, each;
} ofediq_run;

#if OFEDIQ_PIPELINE
typedef struct {
  double number, mean, spread;
} ofediq_moments;

typedef struct {
  double last, change, changes;
  ofediq_moments moments;
} ofediq_reading;

/* What a client remembers of its own samples: src/ofediq/streams/features. */
typedef struct {
  double number, past[OFEDIQ_DEPTH]; /* labels so far; the last of them, newest first */
#if OFEDIQ_CLASSES
  double shares[OFEDIQ_CLASSES], hits[2], tried[2], evidence[OFEDIQ_FORECASTS];
#else
  ofediq_moments moments;
  double fading[OFEDIQ_FORECASTS], naive[OFEDIQ_FORECASTS], change, kept, usual, miss, starts, forecast, unit;
  struct {
    double misses[OFEDIQ_FORECASTS], rivals[OFEDIQ_FORECASTS], tried[OFEDIQ_FORECASTS];
  } trials[2]; /* of forecasts in usual times, and of those made after a far target */
  double tails, far; /* of errors in usual times; how far the last target was, 0 if not */
#endif
  ofediq_reading readings[OFEDIQ_NUMBERS + 1];
  double time; /* of the next sample, in seconds since 1970 */
  float row[OFEDIQ_FEATURES + OFEDIQ_ANCHORS], asked[OFEDIQ_READINGS];
  uint8_t waits; /* the row was made for a prediction whose label has not come */
} ofediq_features;
#endif

#if OFEDIQ_EXPERTS
/* Models that predict together: src/ofediq/methods/mixture.py. */
typedef struct {
  float lost[OFEDIQ_EXPERTS], spent;
  float outputs[OFEDIQ_OUTPUTS];
  uint8_t begun;
  float own[OFEDIQ_EXPERTS - 2][OFEDIQ_DIM];
#if OFEDIQ_RIDGE
  float spread[OFEDIQ_EXPERTS - 2][OFEDIQ_FEATURES + 1][OFEDIQ_FEATURES + 1], towards[OFEDIQ_FEATURES + 1];
#else
  float squares[OFEDIQ_DIM];
#endif
} ofediq_mixture;
#endif

/* All that a client keeps: put one into static memory. Read freely; change nothing. */
typedef struct {
  uint64_t epoch, step; /* of the open round */
  uint32_t clients, number;
  uint8_t known, opened, final, welcome; /* the task fits; there is a model; learning is over; it has a number */
  uint32_t taken, learnt;                /* steps of the open window, and those with a sample */
  uint32_t samples, sent;                /* since the start */
  uint32_t reported, unreported;         /* predictions that no report told yet, windows since the last one */
  double error, naive;                   /* sums of errors: its own, and of the label before */
  float label;
  uint8_t labelled;
  float signal; /* the number that the server broadcasts, if it does */
  float model[OFEDIQ_DIM];
#if OFEDIQ_MOVES
  float own[OFEDIQ_DIM];
#endif
  union { /* gradients added up; at the end of a window symbols, then digits */
    float real[OFEDIQ_DIM];
    int32_t symbol[OFEDIQ_DIM];
    uint32_t digit[OFEDIQ_DIM];
  } update;
  float units[OFEDIQ_UNITS]; /* results of each layer */
  float deltas[2][OFEDIQ_WIDEST];
  float norms[OFEDIQ_NORMS];
#if OFEDIQ_PIPELINE
  ofediq_features features;
#endif
#if OFEDIQ_EXPERTS
  ofediq_mixture mixture;
#endif
  union {
    struct {
      uint32_t last[128], span[128];
    } packed;
#if OFEDIQ_ENTROPY_BOTH
    struct {
      ofediq_run runs[OFEDIQ_FEW];
      uint32_t joint[OFEDIQ_JOINT];
      uint32_t counts[OFEDIQ_CLASSES_OF_SYMBOLS];
      uint32_t low[66], width[66], product[66], bottom[64];
      uint8_t codes[256], bytes[208];
    } entropy;
#endif
  } scratch;
#if OFEDIQ_ENTROPY
  uint32_t book[120]; /* logarithms of the sums of the known tables */
#endif
  uint32_t said_bytes;
  uint8_t said[OFEDIQ_SAID]; /* kept until the next round, should the server ask again */
} ofediq_client;

/* Before everything else. */
void ofediq_start(ofediq_client *client);

int ofediq_task(ofediq_client *client, const uint8_t *data, size_t bytes);
int ofediq_welcome(ofediq_client *client, const uint8_t *data, size_t bytes);
int ofediq_model(ofediq_client *client, const uint8_t *data, size_t bytes);

/* Whether the open round still takes samples. */
int ofediq_hungry(const ofediq_client *client);

/* The prediction for OFEDIQ_READINGS numbers: a class or a number. Where the task makes features, NAN is a missing
 * number, and so is one of 1e36 and more; the readings count as seen, and the label of the same readings belongs to
 * this prediction. */
int ofediq_predict(ofediq_client *client, const float *x, float *prediction);

/* One labelled sample. A sample that comes when the round has had its share is counted, not learnt. */
int ofediq_learn(ofediq_client *client, const float *x, float y);

#if OFEDIQ_PIPELINE && OFEDIQ_CALENDAR
/* When the next sample was taken, in seconds since 1970: before its prediction, or its label if it has none. */
void ofediq_time(ofediq_client *client, double seconds);
#endif

/* This step has no sample. */
int ofediq_skip(ofediq_client *client);

/* What is left to report when the client leaves. */
int ofediq_farewell(ofediq_client *client);

#endif
