
/* The state of a unit, and of a unit's neighbors in a block of 8 members. */
enum { EUSN_SUM = 128, EUSN_SQUARE = 256, EUSN_MAX = 384, EUSN_COUNTS = 512, EUSN_BLOCK = 768 };

static uint32_t eusn_count(const uint32_t *block, uint32_t kind, uint32_t place) {
	return block[EUSN_COUNTS + kind * 64 + place / 2] >> (place % 2 * 16) & 0xffff;
}

static void eusn_set_count(uint32_t *block, uint32_t kind, uint32_t place, uint32_t n) {
	uint32_t *w = &block[EUSN_COUNTS + kind * 64 + place / 2], shift = place % 2 * 16;
	*w = (*w & ~(UINT32_C(0xffff) << shift)) | n << shift;
}

static void eusn_reset_members(uint32_t *words) {
	uint32_t b, i;
	for (b = 0; b < EUSN_MEMBERS / 8; b++) {
		for (i = 0; i < 128; i++) words[EUSN_FIRST + b * EUSN_BLOCK + EUSN_MAX + i] = UINT32_C(0xff7fffff); /* the lowest float32 */
	}
}

/* h and the activation of z. */
static float eusn_add(float h, float z) {
	float c, left, square;
	if (EUSN_ACTIVATION == 0) return h + eusn_tanh(z);
	if (EUSN_ACTIVATION == 2) return h + eusn_limit(z, 1);
	c = eusn_limit(z, 1.5f);
	left = c * EUSN_CUBIC;
	square = c * c;
	return eusn_fma(left, square, h + c);
}

/* After so many samples one of 2^k is counted: this is k. */
static uint32_t eusn_thinned(uint32_t samples) {
	uint32_t k = 0;
	while (samples >> 15 >> k != 0) k++;
	return k;
}

static void eusn_count_sample(uint32_t *block, const uint32_t *signs, const float *z, uint32_t lane, uint32_t i) {
	uint32_t place = i * 8 + lane, *own = block + place, first = i & 8, k;
	float h = eusn_f(own[0]), most = z[first], least = z[first];
	uint32_t positive = z[i] > 0, was = signs[place / 32] >> (place % 32) & 1;
	own[EUSN_SUM] = eusn_u(eusn_f(own[EUSN_SUM]) + h);
	own[EUSN_SQUARE] = eusn_u(eusn_fma(h, h, eusn_f(own[EUSN_SQUARE])));
	if (z[i] > eusn_f(own[EUSN_MAX])) own[EUSN_MAX] = eusn_u(z[i]);
	for (k = first; k < first + 8; k++) {
		if (z[k] > most) most = z[k];
		if (z[k] < least) least = z[k];
	}
	if (positive) eusn_set_count(block, 0, place, eusn_count(block, 0, place) + 1);
	if (positive != was) eusn_set_count(block, 1, place, eusn_count(block, 1, place) + 1);
	if (z[i] == most) eusn_set_count(block, 2, place, eusn_count(block, 2, place) + 1);
	if (z[i] == least) eusn_set_count(block, 3, place, eusn_count(block, 3, place) + 1);
}

static void eusn_step(uint32_t *words, const float *input, float *z, uint32_t samples) {
	const float *recurrent = eusn_recurrent, *weights = eusn_input, *bias = eusn_bias;
	const uint16_t *sees = eusn_inputs, *lags = eusn_lags;
	uint32_t *ring = words + EUSN_RING_AT, thinned = eusn_thinned(samples), r, i, k, kind;
	int counted = ((samples + 1) & ((UINT32_C(1) << thinned) - 1)) == 0;
	int halve = (uint64_t)samples + 1 == UINT64_C(32768) << thinned;
	for (r = 0; r < EUSN_MEMBERS; r++) {
		uint32_t *block = words + EUSN_FIRST + r / 8 * EUSN_BLOCK, *signs = words + EUSN_SIGNS + r / 8 * 4;
		uint32_t lane = r % 8, inputs = eusn_input_count[r];
		int taps = r < EUSN_TAP_MEMBERS;
		for (i = 0; i < 16; i++) {
			z[i] = *bias++;
			for (k = 0; k < inputs; k++) {
				float x = input[sees[k]];
				if (taps && lags[k] > 0) x = eusn_f(ring[sees[k] * EUSN_LAGS + (samples % EUSN_LAGS + EUSN_LAGS - lags[k]) % EUSN_LAGS]);
				z[i] = eusn_fma(*weights++, x, z[i]);
			}
			if (taps) {
				z[i] = eusn_fma(*recurrent++, eusn_f(block[i * 8 + lane]), z[i]);
			} else {
				for (k = 0; k < 16; k++) z[i] = eusn_fma(*recurrent++, eusn_f(block[k * 8 + lane]), z[i]);
			}
		}
		for (i = 0; i < 16; i++) {
			uint32_t place = i * 8 + lane, *own = block + place;
			own[0] = eusn_u(eusn_add(eusn_f(own[0]), z[i]));
			if (counted) eusn_count_sample(block, signs, z, lane, i);
			signs[place / 32] &= ~(UINT32_C(1) << (place % 32));
			if (z[i] > 0) signs[place / 32] |= UINT32_C(1) << (place % 32);
			if (halve) {
				own[EUSN_SUM] = eusn_u(eusn_f(own[EUSN_SUM]) * .5f);
				own[EUSN_SQUARE] = eusn_u(eusn_f(own[EUSN_SQUARE]) * .5f);
				for (kind = 0; kind < 4; kind++) eusn_set_count(block, kind, place, eusn_count(block, kind, place) / 2);
			}
		}
		sees += inputs;
		if (taps) lags += inputs;
	}
	for (i = 0; i < EUSN_INPUTS; i++) ring[i * EUSN_LAGS + samples % EUSN_LAGS] = eusn_u(input[i]);
}

static void eusn_features(const uint32_t *words, float *scores) {
	float n = (float)(words[0] >> eusn_thinned(words[0]));
	uint32_t r, i, kind, j = 0;
	for (r = 0; r < EUSN_MEMBERS; r++) {
		const uint32_t *block = words + EUSN_FIRST + r / 8 * EUSN_BLOCK;
		for (kind = 0; kind < 8; kind++) {
			for (i = 0; i < 16; i++) {
				uint32_t place = i * 8 + r % 8;
				const uint32_t *own = block + place;
				float v = 0;
				if (words[0] == 0) v = 0;
				else if (kind == 0) v = eusn_f(own[0]);
				else if (kind == 1) v = eusn_f(own[EUSN_SUM]) / n;
				else if (kind == 2) v = (float)eusn_count(block, 0, place) / n;
				else if (kind == 3) v = eusn_add(0, eusn_f(own[EUSN_MAX]));
				else if (kind == 4) v = eusn_deviation(eusn_f(own[EUSN_SUM]) / n, eusn_f(own[EUSN_SQUARE]) / n);
				else v = (float)eusn_count(block, kind - 4, place) / n;
				eusn_take(scores, j++, v);
			}
		}
	}
}
