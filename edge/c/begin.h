
void eusn_reset(eusn_state *s) {
	uint32_t i;
	for (i = 0; i < EUSN_WORDS; i++) s->words[i] = 0;
	eusn_reset_members(s->words);
}

int eusn_push(eusn_state *s, const float *sample) {
	uint32_t *words = s->words, c, samples = words[0], regime;
	float *input = s->work;
	for (c = 0; c < EUSN_CHANNELS; c++) {
		if (!(sample[c] >= -1e15f && sample[c] <= 1e15f)) return EUSN_REFUSED;
	}
	if (samples == UINT32_MAX) return EUSN_TOO_LONG;
	regime = EUSN_REGIME(sample);
	for (c = 0; c < EUSN_CHANNELS; c++) {
		float x = EUSN_VALUE(sample[c], regime, c);
		if (EUSN_DIFFERENCE) {
			float before = eusn_f(words[EUSN_PREVIOUS + c]);
			input[EUSN_CHANNELS + c] = samples == 0 ? 0 : (x - before) * eusn_norm_diff[c];
			words[EUSN_PREVIOUS + c] = eusn_u(x);
		}
		input[c] = EUSN_STANDARDIZE ? (x - eusn_norm_mean[c]) * eusn_norm_scale[c] : x;
	}
	eusn_step(words, input, s->work + EUSN_INPUTS, samples);
	words[0] = samples + 1;
	return 0;
}
