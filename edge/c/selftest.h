
int eusn_selftest(eusn_state *s) {
	float sample[EUSN_CHANNELS], scores[EUSN_COLUMNS];
	uint32_t x = 1, t, c;
	int bad = 0;
	eusn_reset(s);
	for (t = 0; t < EUSN_TEST_SAMPLES; t++) {
		for (c = 0; c < EUSN_CHANNELS; c++) {
			x = x * UINT32_C(1664525) + UINT32_C(1013904223);
			sample[c] = eusn_fma((float)(x >> 8), eusn_test_step[c], eusn_test_low[c]);
		}
		bad |= eusn_push(s, sample);
	}
	eusn_scores(s, scores);
	for (c = 0; c < EUSN_COLUMNS; c++) bad |= eusn_u(scores[c]) != eusn_test_scores[c];
	EUSN_TEST_MORE
	eusn_reset(s);
	return bad;
}
