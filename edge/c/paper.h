
static void eusn_reset_members(uint32_t *words) {
	uint32_t r, i;
	for (r = 0; r < EUSN_MEMBERS; r++) {
		for (i = 0; EUSN_MAX >= 0 && i < EUSN_UNITS; i++) words[EUSN_FIRST + r * EUSN_MEMBER_WORDS + EUSN_MAX + i] = eusn_u(-1);
	}
}

/* A sum has two levels: the low one goes to the high one every 256 samples. */
static void eusn_sum(uint32_t *low, uint32_t *high, float sum, int fold) {
	if (fold) {
		*high = eusn_u(eusn_f(*high) + sum);
		sum = 0;
	}
	*low = eusn_u(sum);
}

static void eusn_step(uint32_t *words, const float *input, float *next, uint32_t samples) {
	const float *recurrent = eusn_recurrent, *weights = eusn_input, *bias = eusn_bias;
	const uint16_t *sees = eusn_inputs;
	int fold = ((samples + 1) & 255) == 0;
	uint32_t r, i, k;
	for (r = 0; r < EUSN_MEMBERS; r++) {
		uint32_t *w = words + EUSN_FIRST + r * EUSN_MEMBER_WORDS, inputs = eusn_input_count[r];
		float keep = eusn_keep_gain[2 * r], gain = eusn_keep_gain[2 * r + 1];
		for (i = 0; i < EUSN_UNITS; i++) {
			uint32_t *own = w + i;
			float z = *bias++, v, h, kept;
			for (k = 0; k < inputs; k++) z = eusn_fma(*weights++, input[sees[k]], z);
			if (EUSN_RING) {
				z = eusn_fma(*recurrent++, eusn_f(w[i == 0 ? EUSN_UNITS - 1 : i - 1]), z);
			} else {
				for (k = 0; k < EUSN_UNITS; k++) z = eusn_fma(*recurrent++, eusn_f(w[k]), z);
			}
			v = eusn_tanh(z);
			kept = keep * eusn_f(*own);
			h = next[i] = eusn_fma(gain, v, kept);
			if (EUSN_SUM_LOW >= 0) eusn_sum(own + EUSN_SUM_LOW, own + EUSN_SUM_HIGH, eusn_f(own[EUSN_SUM_LOW]) + h, fold);
			if (EUSN_POSITIVE >= 0 && z > 0) own[EUSN_POSITIVE]++;
			if (EUSN_MAX >= 0 && v > eusn_f(own[EUSN_MAX])) own[EUSN_MAX] = eusn_u(v);
			if (EUSN_SQUARE_LOW >= 0) eusn_sum(own + EUSN_SQUARE_LOW, own + EUSN_SQUARE_HIGH, eusn_fma(h, h, eusn_f(own[EUSN_SQUARE_LOW])), fold);
		}
		sees += inputs;
		for (i = 0; i < EUSN_UNITS; i++) w[i] = eusn_u(next[i]);
	}
}

static void eusn_features(const uint32_t *words, float *scores) {
	float n = (float)words[0];
	uint32_t r, i, j = 0;
	int f;
	for (r = 0; r < EUSN_MEMBERS; r++) {
		const uint32_t *w = words + EUSN_FIRST + r * EUSN_MEMBER_WORDS;
		for (f = 0; f < 5; f++) {
			if (!(EUSN_FEATURE_BITS >> f & 1)) continue;
			for (i = 0; i < EUSN_UNITS; i++) {
				const uint32_t *own = w + i;
				float v = 0;
				if (words[0] == 0) v = 0;
				else if (f == 0) v = eusn_f(own[0]);
				else if (f == 1) v = (eusn_f(own[EUSN_SUM_HIGH]) + eusn_f(own[EUSN_SUM_LOW])) / n;
				else if (f == 2) v = (float)own[EUSN_POSITIVE] / n;
				else if (f == 3) v = eusn_f(own[EUSN_MAX]);
				else v = eusn_deviation((eusn_f(own[EUSN_SUM_HIGH]) + eusn_f(own[EUSN_SUM_LOW])) / n, (eusn_f(own[EUSN_SQUARE_HIGH]) + eusn_f(own[EUSN_SQUARE_LOW])) / n);
				eusn_take(scores, j++, v);
			}
		}
	}
}
