/* What a sample becomes before it is learnt: src/ofediq/streams/features, for one client, operation by operation. Part of
 * ofediq.c where the task makes features. Everything is in double; the C library's log, exp, sin and cos may differ from
 * NumPy's in the last of 53 bits, of which a feature keeps 24. */

static const uint8_t is_flag[OFEDIQ_READINGS] = OFEDIQ_FLAGS; /* 1: a flag, which stays as it is */
#if OFEDIQ_GAP_COUNT
static const uint16_t gaps[OFEDIQ_GAP_COUNT] = OFEDIQ_GAPS; /* readings that may be missing */
#endif

#define SURE 600.0 /* logarithm of the odds from which on the other side has no weight */

static double least(double one, double other) { return one < other ? one : other; }

static double rate_of(double count) {
  double rate = 1 / (count > 1 ? count : 1);
  return rate > 1 / OFEDIQ_HORIZON ? rate : 1 / OFEDIQ_HORIZON;
}

/* The fading mean of values after the `count`-th one; NaN leaves it as it is. */
static double average(double mean, double value, double count) {
  return value != value ? mean : mean + rate_of(count) * (value - mean);
}

static void update_moments(ofediq_moments *all, double value) {
  if (value != value) return;
#if OFEDIQ_ROBUST
  if (all->number >= 10) {
    double reach = 4 * sqrt(all->spread), low = all->mean - reach, high = all->mean + reach;
    value = value < low ? low : value > high ? high : value;
  }
#endif
  all->number++;
  double rate = rate_of(all->number), off = value - all->mean;
  all->mean = all->mean + rate * off;
  all->spread = (1 - rate) * (all->spread + rate * off * off);
}

/* (value - centre) / width, cut to the limit; 0 where the value is unknown or the width is rounding noise. */
static float scaled(double value, double centre, double width) {
  if (!(width > 1e-9 * fabs(centre)) || value != value) return 0;
  double ratio = (value - centre) / width;
  return (float)(ratio < -OFEDIQ_LIMIT ? -OFEDIQ_LIMIT : ratio > OFEDIQ_LIMIT ? OFEDIQ_LIMIT : ratio);
}

/* What is so large stands for no number: streams.features.known. */
static double known_or_nan(float value) { return fabsf(value) < OFEDIQ_NO_NUMBER ? value : NAN; }

static float *observe_readings(ofediq_features *known, const float *x, float *row) {
  float *levels = row, *changes = row + OFEDIQ_NUMBERS;
  ofediq_reading *one = known->readings;
  for (uint32_t i = 0; i < OFEDIQ_READINGS; i++) {
    if (is_flag[i]) continue;
    double value = known_or_nan(x[i]), change = value - one->last;
    if (change == change) one->changes++;
    if (value == value) one->last = value;
    update_moments(&one->moments, value);
    one->change = average(one->change, change * change, one->changes);
    *levels++ = scaled(value, one->moments.mean, sqrt(one->moments.spread));
    if (OFEDIQ_DIFFERENCES) *changes++ = scaled(change, 0, sqrt(one->change));
    one++;
  }
  row = OFEDIQ_DIFFERENCES ? changes : levels;
  for (uint32_t i = 0; i < OFEDIQ_READINGS; i++)
    if (is_flag[i]) *row++ = fabsf(x[i]) < OFEDIQ_NO_NUMBER ? x[i] : 0;
#if OFEDIQ_GAP_COUNT
  for (uint32_t i = 0; i < OFEDIQ_GAP_COUNT; i++) *row++ = !(fabsf(x[gaps[i]]) < OFEDIQ_NO_NUMBER);
#endif
  return row;
}

static void shift(double *past, double value) {
  memmove(past + 1, past, (OFEDIQ_DEPTH - 1) * sizeof *past);
  past[0] = value;
}

#if OFEDIQ_CLASSES
/* A label: streams.features.labels ---------------------------------------------------------------------------------- */

enum { BLENDS = OFEDIQ_FORECASTS - 2 }; /* after the last label and that of a season ago */
static const double blends[BLENDS] = OFEDIQ_BLENDS;

static double share_of(const ofediq_features *known, double label) {
  return (known->shares[(uint32_t)label] * known->number + 1) / (known->number + OFEDIQ_CLASSES);
}

static double hit_rate(const ofediq_features *known, int place) {
  double seen = least(known->tried[place], OFEDIQ_MOST_TRIALS);
  return (known->hits[place] * seen + OFEDIQ_PRIOR_HITS) / (seen + OFEDIQ_PRIOR_TRIALS);
}

/* The last label, and that of a season ago; -1 where it is unknown. */
static double named_label(const ofediq_features *known, int place) {
  if (place == 0) return known->past[0];
  return OFEDIQ_SEASON ? known->past[OFEDIQ_SEASON ? OFEDIQ_SEASON - 1 : 0] : -1;
}

static void weigh_labels(const ofediq_features *known, double *weights) {
  int any = 0, some[OFEDIQ_FORECASTS];
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) some[i] = i < 2 ? named_label(known, i) >= 0 : known->number > 0;
#if OFEDIQ_BASELINE == OFEDIQ_BY_EVIDENCE
  static const double prior[OFEDIQ_FORECASTS] = OFEDIQ_PRIOR;
  double best = -HUGE_VAL;
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    weights[i] = prior[i] + known->evidence[i];
    if (some[i] && weights[i] > best) best = weights[i];
  }
  for (int i = 0; i < OFEDIQ_FORECASTS; i++)
    weights[i] = some[i] ? exp(weights[i] - best > -SURE ? weights[i] - best : -SURE) : 0;
  (void)any;
#else
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    weights[i] = i == OFEDIQ_BASELINE && some[i];
    any |= weights[i] > 0;
  }
  if (!any) weights[0] = some[0];
#endif
}

/* Log-probabilities of the naive forecast. */
static void log_odds(const ofediq_features *known, float *anchors) {
  double weights[OFEDIQ_FORECASTS], extra[2] = {0, 0}, spread = 0, total = 0;
  weigh_labels(known, weights);
  for (int i = 0; i < BLENDS; i++) {
    spread = spread + weights[i + 2] * (1 - blends[i]);
    extra[0] = extra[0] + weights[i + 2] * blends[i];
    total = total + weights[i + 2];
  }
  for (int place = 0; place < 2; place++) {
    double label = named_label(known, place), own = share_of(known, label > 0 ? label : 0);
    double rate = hit_rate(known, place), left = weights[place] * (1 - rate) / (1 - own);
    spread = spread + left;
    extra[place] = extra[place] + weights[place] * rate - left * own;
    total = total + weights[place];
  }
  for (uint32_t label = 0; label < OFEDIQ_CLASSES; label++) {
    double chance = spread * share_of(known, label);
    for (int place = 0; place < 2; place++)
      if (named_label(known, place) == label) chance = chance + extra[place];
    int usable = total > 0 && known->number > 0 && OFEDIQ_BASELINE != OFEDIQ_NO_FORECAST;
    anchors[label] = usable ? (float)log(chance / total) : 0;
  }
}

static float *observe_past(const ofediq_features *known, float *row) {
  for (int lag = 1; lag <= OFEDIQ_LAGS; lag++)
    for (uint32_t label = 0; label < OFEDIQ_CLASSES; label++) *row++ = known->past[lag - 1] == label;
#if OFEDIQ_SEASON > OFEDIQ_LAGS
  for (uint32_t label = 0; label < OFEDIQ_CLASSES; label++) *row++ = known->past[OFEDIQ_SEASON - 1] == label;
#endif
  return row;
}

static void observe_anchors(const ofediq_features *known, float *anchors) { log_odds(known, anchors); }

/* The chance of `label` by a forecast; 0 where the forecast is not known. */
static double chance_of(const ofediq_features *known, int forecast, double label) {
  double share = share_of(known, label);
  if (forecast >= 2) {
    double blend = blends[forecast - 2];
    return blend * (named_label(known, 0) == label) + (1 - blend) * share;
  }
  double named = named_label(known, forecast), hit = hit_rate(known, forecast);
  if (named < 0) return 0;
  return named == label ? hit : (1 - hit) * share / (1 - share_of(known, named));
}

static void learn_past(ofediq_features *known, double label) {
  double chances[OFEDIQ_FORECASTS];
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) chances[i] = chance_of(known, i, label);
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    double gain = chances[0] > 0 && chances[i] > 0 ? log(chances[i]) - log(chances[0]) : 0;
    known->evidence[i] = (1 - 1 / OFEDIQ_MOST_TRIALS) * known->evidence[i] + gain;
  }
  for (int place = 0; place < 2; place++) {
    double named = named_label(known, place);
    if (named < 0) continue;
    known->tried[place]++;
    known->hits[place] = average(known->hits[place], named == label, known->tried[place]);
  }
  known->number++;
  for (uint32_t one = 0; one < OFEDIQ_CLASSES; one++)
    known->shares[one] = average(known->shares[one], one == label, known->number);
  shift(known->past, label);
}

static void forget_past(ofediq_features *known) {
  for (uint32_t i = 0; i < OFEDIQ_DEPTH; i++) known->past[i] = -1;
}

#else
/* A number: streams.features.numbers --------------------------------------------------------------------------------- */

enum { FADES = OFEDIQ_FORECASTS - 4 }; /* between the last target and mean, steady, season */
static const double fades[FADES] = OFEDIQ_FADES;

static void naive_forecasts(const ofediq_features *known, double *naive) {
  *naive++ = known->past[0];
  for (int i = 0; i < FADES; i++) *naive++ = known->fading[i];
  *naive++ = known->moments.mean;
  *naive++ = known->kept;
  *naive = OFEDIQ_SEASON ? known->past[OFEDIQ_SEASON ? OFEDIQ_SEASON - 1 : 0] : NAN;
}

#if OFEDIQ_BASELINE == OFEDIQ_NO_FORECAST
#elif OFEDIQ_BASELINE == OFEDIQ_BY_EVIDENCE
static double log_ratio(double one, double other) {
  double ratio = one > 0 && other > 0 ? log(one) - log(other) : OFEDIQ_LARGEST * ((one > 0) - (other > 0));
  return ratio < -OFEDIQ_LARGEST ? -OFEDIQ_LARGEST : ratio > OFEDIQ_LARGEST ? OFEDIQ_LARGEST : ratio;
}

/* How much the readings look like those of rows in no order, 0 to 1. */
static double unordered(const ofediq_features *known) {
  double total = 0, count = 0;
  for (uint32_t i = 0; i < OFEDIQ_NUMBERS; i++) {
    const ofediq_reading *one = &known->readings[i];
    const ofediq_moments *all = &one->moments;
    if (!(sqrt(all->spread) > 1e-9 * fabs(all->mean)) || one->changes < 2) continue;
    total = total + least(one->change * (all->number - 1) / (2 * all->number * all->spread), 1);
    count++;
  }
  double loose = (total / (count > 1 ? count : 1) - OFEDIQ_LASTING) / (OFEDIQ_LOOSE - OFEDIQ_LASTING);
  return loose < 0 ? 0 : least(loose, 1);
}

static void weigh_numbers(const ofediq_features *known, double *weights) {
  static const double more[OFEDIQ_FORECASTS] = OFEDIQ_UNORDERED;
  static const double prior[2][OFEDIQ_FORECASTS] = {OFEDIQ_PRIOR, OFEDIQ_FAR_PRIOR};
  static const double margins[OFEDIQ_FORECASTS] = OFEDIQ_MARGINS;
  const int far = known->far > 0;
  const double *misses = known->trials[far].misses, *rivals = known->trials[far].rivals;
  const double *tried = known->trials[far].tried;
  double best = -HUGE_VAL, level = misses[0], heavy = 1, once = far ? OFEDIQ_FAR_ERROR : 0;
  double loose = unordered(known);
  if (!far && known->tails > 0) heavy = least(3 * level * level / known->tails, 1);
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    double better = log_ratio(rivals[i] * tried[i] + once, misses[i] * tried[i] + once) - margins[i];
    weights[i] = prior[far][i] + loose * more[i] + least(heavy * tried[i], OFEDIQ_MOST_TRIALS) / 2 * better;
    if (known->naive[i] == known->naive[i] && weights[i] > best) best = weights[i];
  }
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    double behind = weights[i] - best;
    behind = behind > 0 ? 0 : behind < -SURE ? -SURE : behind;
    weights[i] = known->naive[i] == known->naive[i] ? exp(behind) : 0;
  }
}
#else
static void weigh_numbers(const ofediq_features *known, double *weights) {
  int any = 0;
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    weights[i] = i == OFEDIQ_BASELINE && known->naive[i] == known->naive[i];
    any |= weights[i] > 0;
  }
  if (!any) weights[0] = 1; /* the last target */
}
#endif

static void make_forecast(ofediq_features *known) {
#if OFEDIQ_BASELINE == OFEDIQ_NO_FORECAST
  known->forecast = 0;
  known->unit = 1;
#else
  double weights[OFEDIQ_FORECASTS], total = 0, chosen = 0;
  weigh_numbers(known, weights);
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    double part = weights[i] > 0 ? weights[i] * known->naive[i] : 0;
    total = i ? total + weights[i] : weights[i];
    chosen = i ? chosen + part : part;
  }
  known->forecast = chosen / (total > 0 ? total : 1);
  known->unit = known->starts >= OFEDIQ_CHANGES_NEEDED ? sqrt(known->miss) : 0;
#endif
}

static float *observe_past(const ofediq_features *known, float *row) {
  double last = known->past[0], usual = sqrt(known->change), deviation = sqrt(known->moments.spread);
  *row++ = scaled(last, known->moments.mean, deviation);
  *row++ = scaled(last, known->number > 0 ? known->forecast : 0, known->unit);
  for (int i = 0; i < OFEDIQ_LAGS; i++) *row++ = scaled(known->past[i] - known->past[i + 1], 0, usual);
#if OFEDIQ_SEASON
  *row++ = scaled(known->past[OFEDIQ_SEASON - 1], last, deviation);
  *row++ = scaled(known->past[OFEDIQ_SEASON - 1] - known->past[OFEDIQ_SEASON], 0, usual);
#endif
  return row;
}

static void observe_anchors(const ofediq_features *known, float *anchors) {
  anchors[0] = known->number > 0 ? (float)known->forecast : 0;
  anchors[1] = (float)known->unit;
}

static void learn_past(ofediq_features *known, double target) {
  double errors[OFEDIQ_FORECASTS], miss = (known->forecast - target) * (known->forecast - target);
  const int far = known->far > 0;
  double change = target - known->past[0], *misses = known->trials[far].misses;
  double *rivals = known->trials[far].rivals, *tried = known->trials[far].tried;
  if (miss == miss) known->starts++;
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) {
    double off = (known->naive[i] - target) / (far ? known->far : 1);
    errors[i] = off * off;
    if (errors[i] != errors[i]) continue;
    tried[i]++;
    misses[i] = average(misses[i], errors[i], tried[i]);
    rivals[i] = average(rivals[i], errors[0], tried[i]);
  }
  if (!far) known->tails = average(known->tails, errors[0] * errors[0], tried[0]);
  if (known->number > 0) {
    double distance = fabs(target - known->kept);
    double reach = known->number >= OFEDIQ_FAR_NEEDED && known->usual > 0 ? OFEDIQ_FAR * known->usual : HUGE_VAL;
    known->far = !far && distance > reach ? distance : 0;
    known->usual = average(known->usual, least(distance, reach), known->number);
  }
  if (!(known->far > 0)) known->kept = target;
  known->miss = average(known->miss, miss, known->starts);
  known->change = average(known->change, change * change, known->number);
  for (int i = 0; i < FADES; i++) {
    double rate = 1 / (known->number + 1);
    known->fading[i] = known->fading[i] + (rate > fades[i] ? rate : fades[i]) * (target - known->fading[i]);
  }
  update_moments(&known->moments, target);
  known->number++;
  shift(known->past, target);
  naive_forecasts(known, known->naive);
  make_forecast(known);
}

static void forget_past(ofediq_features *known) {
  for (uint32_t i = 0; i < OFEDIQ_DEPTH; i++) known->past[i] = NAN;
  for (int i = 0; i < OFEDIQ_FORECASTS; i++) known->naive[i] = NAN;
  known->forecast = NAN;
  known->unit = OFEDIQ_BASELINE == OFEDIQ_NO_FORECAST;
}
#endif

/* The whole pipeline ------------------------------------------------------------------------------------------------ */

static void forget(ofediq_features *known) {
  for (uint32_t i = 0; i < OFEDIQ_NUMBERS; i++) known->readings[i].last = NAN;
  forget_past(known);
}

/* What the model reads at these readings, into known->row: features and anchors; they count as seen. */
static void observe(ofediq_features *known, const float *x) {
  float *row = observe_past(known, observe_readings(known, x, known->row));
#if OFEDIQ_CALENDAR
  const double turn = 2 * 3.141592653589793, day = turn * (fmod(known->time, 86400.0) / 86400.0);
  const double week = turn * (fmod(known->time, 604800.0) / 604800.0);
  *row++ = (float)sin(day);
  *row++ = (float)cos(day);
  *row++ = (float)sin(week);
  *row++ = (float)cos(week);
#endif
  observe_anchors(known, row);
  memcpy(known->asked, x, sizeof known->asked);
  known->waits = 1;
}
