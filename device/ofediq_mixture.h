/* Predictions by several models at once: src/ofediq/methods/mixture.py and ridge.py, for one client. Part of ofediq.c where
 * the task's clients mix. Nothing of it is sent, but for the errors in reports; it rounds as it comes. */

static const float log_prior[OFEDIQ_EXPERTS] = OFEDIQ_LOG_PRIOR;

enum { OWN = OFEDIQ_EXPERTS - 2 }; /* models, after the common one and the naive forecast */

static float mixing_rate(const ofediq_mixture *mixed) {
  return logf((float)OFEDIQ_EXPERTS) / (mixed->spent > 1e-18f ? mixed->spent : 1e-18f);
}

static float smallest(const float *values) {
  float least_one = values[0];
  for (int i = 1; i < OFEDIQ_EXPERTS; i++)
    if (values[i] < least_one) least_one = values[i];
  return least_one;
}

static float at_most(float value, float most) { return value < most ? value : most; }

static void expert_weights(const ofediq_mixture *mixed, float *weights) {
  float rate = mixing_rate(mixed), first = smallest(mixed->lost), total = 0;
  for (int i = 0; i < OFEDIQ_EXPERTS; i++) {
    float odds = log_prior[i] - at_most(rate * (mixed->lost[i] - first), 87);
    weights[i] = odds > -87 ? expf(odds) : 0;
    total += weights[i];
  }
  for (int i = 0; i < OFEDIQ_EXPERTS; i++) weights[i] /= total;
}

/* The sums of losses after a sample, and what mixing has cost so far. */
static void follow_losses(ofediq_mixture *mixed, const float *losses) {
  float weights[OFEDIQ_EXPERTS], rate = mixing_rate(mixed), first = smallest(losses), mean = 0, kept = 0, worst = 0;
  const float fade = (float)(1 - 1 / OFEDIQ_MIXTURE_HORIZON);
  expert_weights(mixed, weights);
  for (int i = 0; i < OFEDIQ_EXPERTS; i++) {
    float behind = losses[i] - first;
    mean += weights[i] * behind;
    kept += weights[i] * expf(-at_most(rate * behind, 87));
    if (losses[i] > worst) worst = losses[i];
    mixed->lost[i] = fade * (mixed->lost[i] + losses[i]);
  }
  float cost = mean + logf(kept > 1e-18f ? kept : 1e-18f) / rate;
  mixed->spent = fade * (mixed->spent + (cost > 0 && worst < 1e18f ? cost : 0)); /* a model is gone: no more doubt */
  first = smallest(mixed->lost);
  for (int i = 0; i < OFEDIQ_EXPERTS; i++) mixed->lost[i] = at_most(mixed->lost[i] - first, 1e18f);
}

#if OFEDIQ_RIDGE
enum { SIZE = OFEDIQ_FEATURES + 1 };
static const float drifts[] = OFEDIQ_DRIFTS;

static void begin_own(ofediq_mixture *mixed, const float *params) {
  for (int one = 0; one < OWN; one++) {
    memcpy(mixed->own[one], params, sizeof mixed->own[one]);
    memset(mixed->spread[one], 0, sizeof mixed->spread[one]);
    for (uint32_t i = 0; i < SIZE; i++) mixed->spread[one][i][i] = 1 / (float)OFEDIQ_RIDGE_WEIGHT;
  }
}

/* How much the loss bends along the residuals; 0 if they tell nothing. */
static float curvature(const float *residual) {
  float size = 0, cubes = 0, label = 0;
  for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++) {
    size += residual[j] * residual[j];
    cubes += residual[j] * residual[j] * residual[j];
    if (residual[j] < label) label = residual[j];
  }
  if (!(size > 1e-20f)) return 0;
  if (!OFEDIQ_CLASSES) return 1;
  float along = cubes + label * label - (size + label) * (size + label);
  return along / size > 1e-3f ? along / size : 1e-3f;
}

/* `residual` is that of the model at the row; for a number it is twice the difference. */
static void learn_own(ofediq_mixture *mixed, int one, const float *row, const float *residual) {
  float (*spread)[SIZE] = mixed->spread[one], *towards = mixed->towards, along = 0, bend = curvature(residual);
  if (!(bend > 0)) return;
  for (uint32_t i = 0; i < SIZE; i++) {
    towards[i] = spread[i][SIZE - 1]; /* the bias has 1 */
    for (uint32_t k = 0; k + 1 < SIZE; k++) towards[i] += spread[i][k] * row[k];
    along += towards[i] * (i + 1 < SIZE ? row[i] : 1);
  }
  float gain = 1 / (1 + bend * along);
  for (uint32_t i = 0; i < SIZE; i++) {
    for (uint32_t k = 0; k < SIZE; k++) spread[i][k] -= bend * gain * towards[i] * towards[k];
    spread[i][i] += drifts[one];
    for (uint32_t j = 0; j < OFEDIQ_OUTPUTS; j++)
      mixed->own[one][i * OFEDIQ_OUTPUTS + j] -= towards[i] * gain * (OFEDIQ_CLASSES ? residual[j] : residual[j] / 2);
  }
}
#else
static void begin_own(ofediq_mixture *mixed, const float *params) { memcpy(mixed->own[0], params, sizeof mixed->own); }

/* AdaGrad, one coordinate at a time. */
static void learn_own(ofediq_mixture *mixed, uint32_t at, float gradient) {
  if (!finite(gradient)) return;
  mixed->squares[at] = at_most(mixed->squares[at] + gradient * gradient, 1e18f);
  float size = sqrtf(mixed->squares[at] > 0 ? mixed->squares[at] : 1);
  mixed->own[0][at] -= (float)OFEDIQ_OWN_STEP * (gradient / size);
}
#endif
