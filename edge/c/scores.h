
void eusn_scores(const eusn_state *s, float *scores) {
	uint32_t c;
	for (c = 0; c < EUSN_COLUMNS; c++) scores[c] = eusn_intercept[c];
	eusn_features(s->words, scores);
}
