/* Any model, for WebAssembly: what a header has as constants is read from bytes, in the
   order of blob.go. Compiled to ../eusn.wasm by make wasm. */

#include <float.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))

static struct {
	/* The numbers of blob.go, in its order. */
	uint32_t mixed, channels, classes, columns, words, inputs, members, features, first, standardize, difference, previous, limited;
	uint32_t ring_at, signs, lags, tap_members, activation;
	uint32_t units, member_words, ring, sum_low, sum_high, positive, max, square_low, square_high, feature_bits;
	uint32_t test_samples, inputs_count, lags_count, recurrent_count, input_count, test_probability;
	uint32_t temperature[2];
} m;

static const float *saturation_shift_cubic, *eusn_tanh_table, *eusn_norm_mean, *eusn_norm_scale, *eusn_norm_diff, *eusn_recurrent, *eusn_input, *eusn_bias, *eusn_keep_gain;
static const float *eusn_center, *eusn_limits, *eusn_weights, *eusn_intercept, *eusn_test_low, *eusn_test_step;
static const uint32_t *eusn_test_scores;
static const uint16_t *eusn_input_count, *eusn_inputs, *eusn_lags;
static double temperature;

typedef struct {
	uint32_t *words;
	float *work;
} eusn_state;

#define EUSN_CHANNELS m.channels
#define EUSN_CLASSES m.classes
#define EUSN_COLUMNS m.columns
#define EUSN_WORDS m.words
#define EUSN_INPUTS m.inputs
#define EUSN_MEMBERS m.members
#define EUSN_FEATURES m.features
#define EUSN_FIRST m.first
#define EUSN_STANDARDIZE m.standardize
#define EUSN_DIFFERENCE m.difference
#define EUSN_PREVIOUS m.previous
#define EUSN_LIMITED m.limited
#define EUSN_RING_AT m.ring_at
#define EUSN_SIGNS m.signs
#define EUSN_LAGS m.lags
#define EUSN_TAP_MEMBERS m.tap_members
#define EUSN_ACTIVATION m.activation
#define EUSN_UNITS m.units
#define EUSN_MEMBER_WORDS m.member_words
#define EUSN_RING m.ring
#define EUSN_FEATURE_BITS m.feature_bits
#define EUSN_TEST_SAMPLES m.test_samples
#define EUSN_TEMPERATURE temperature
#define EUSN_TANH_SATURATION saturation_shift_cubic[0]
#define EUSN_TANH_SHIFT saturation_shift_cubic[1]
#define EUSN_CUBIC saturation_shift_cubic[2]
#define EUSN_REFUSED 1
#define EUSN_REGIME(sample) 0
#define EUSN_VALUE(x, regime, c) ((void)(regime), (x))
#define EUSN_TOO_LONG 2
#define EUSN_TEST_MORE if (temperature > 0) bad |= eusn_u(eusn_probability(scores)) != m.test_probability;

#include "arithmetic.h"
#include "tanh.h"
#include "root.h"
#include "readout.h"

#define eusn_reset_members mixed_reset_members
#define eusn_step mixed_step
#define eusn_features mixed_features
#include "mixed.h"
#undef eusn_reset_members
#undef eusn_step
#undef eusn_features

#define EUSN_SUM_LOW (int32_t)m.sum_low
#define EUSN_SUM_HIGH (int32_t)m.sum_high
#define EUSN_POSITIVE (int32_t)m.positive
#define EUSN_MAX (int32_t)m.max
#define EUSN_SQUARE_LOW (int32_t)m.square_low
#define EUSN_SQUARE_HIGH (int32_t)m.square_high
#define eusn_reset_members paper_reset_members
#define eusn_step paper_step
#define eusn_features paper_features
#include "paper.h"
#undef eusn_reset_members
#undef eusn_step
#undef eusn_features

static void eusn_reset_members(uint32_t *words) {
	if (m.mixed) mixed_reset_members(words);
	else paper_reset_members(words);
}

static void eusn_step(uint32_t *words, const float *in, float *work, uint32_t samples) {
	if (m.mixed) mixed_step(words, in, work, samples);
	else paper_step(words, in, work, samples);
}

static void eusn_features(const uint32_t *words, float *scores) {
	if (m.mixed) mixed_features(words, scores);
	else paper_features(words, scores);
}

#include "begin.h"
#include "scores.h"
#include "class.h"
#include "probability.h"
#include "selftest.h"

extern unsigned char __heap_base;
static uint32_t top;
static eusn_state state;
static float *result;

/* So many bytes of memory, for good; 0: there is none. */
EXPORT("room") void *room(uint32_t bytes) {
	uint32_t at = top ? top : (uint32_t)(uintptr_t)&__heap_base, have;
	at = (at + 15) & ~UINT32_C(15);
	if (bytes > UINT32_C(0x40000000) - at) return 0;
	top = at + bytes;
	have = (uint32_t)__builtin_wasm_memory_size(0) << 16;
	if (top > have && __builtin_wasm_memory_grow(0, (top - have + 65535) >> 16) == (__SIZE_TYPE__)-1) return 0;
	return (void *)(uintptr_t)at;
}

static const float *take(const uint32_t **p, uint32_t n) {
	const float *v = (const float *)*p;
	*p += n;
	return v;
}

/* Reads the model at p. 0: it is there, and says what eusn-stream says of the samples of
   its test; 1: it does not; 2: there is no memory. */
EXPORT("load") int load(const uint32_t *p) {
	uint32_t i, *to = (uint32_t *)&m, work;
	union {
		uint32_t u[2];
		double f;
	} t;
	for (i = 0; i < sizeof m / 4; i++) to[i] = *p++;
	t.u[0] = m.temperature[0];
	t.u[1] = m.temperature[1];
	temperature = t.f;
	saturation_shift_cubic = take(&p, 3);
	eusn_tanh_table = take(&p, 96);
	eusn_norm_mean = take(&p, m.channels);
	eusn_norm_scale = take(&p, m.channels);
	eusn_norm_diff = take(&p, m.channels);
	eusn_input_count = (const uint16_t *)take(&p, (m.members + 1) / 2);
	eusn_inputs = (const uint16_t *)take(&p, (m.inputs_count + 1) / 2);
	eusn_lags = (const uint16_t *)take(&p, (m.lags_count + 1) / 2);
	eusn_recurrent = take(&p, m.recurrent_count);
	eusn_input = take(&p, m.input_count);
	eusn_bias = take(&p, m.members * m.units);
	eusn_keep_gain = take(&p, 2 * m.members);
	eusn_center = take(&p, m.features);
	eusn_limits = take(&p, m.limited ? m.features : 0);
	eusn_weights = take(&p, m.columns * m.features);
	eusn_intercept = take(&p, m.columns);
	eusn_test_low = take(&p, m.channels);
	eusn_test_step = take(&p, m.channels);
	eusn_test_scores = (const uint32_t *)take(&p, m.columns);
	work = m.inputs + m.units;
	state.words = room(4 * m.words);
	state.work = room(4 * work);
	result = room(4 * (m.columns + 1));
	if (!state.words || !state.work || !result) return 2;
	return eusn_selftest(&state);
}

EXPORT("reset") void reset(void) { eusn_reset(&state); }

/* Takes n samples; how many of them were refused. */
EXPORT("push") uint32_t push(const float *samples, uint32_t n) {
	uint32_t refused = 0;
	for (; n > 0; n--, samples += m.channels) refused += eusn_push(&state, samples) != 0;
	return refused;
}

/* The scores, and behind them the probability of the largest; 0 where there is none. */
EXPORT("score") const float *score(void) {
	eusn_scores(&state, result);
	result[m.columns] = temperature > 0 ? eusn_probability(result) : 0;
	return result;
}

/* The state, as eusn-stream stores it. */
EXPORT("words") const uint32_t *words(void) { return state.words; }
