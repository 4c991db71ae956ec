
static float eusn_deviation(float mean, float square) {
	float v = eusn_fma(-mean, mean, square);
	return v > 0 ? eusn_root(v) : 0;
}

/* Feature j goes into every score. */
static void eusn_take(float *scores, uint32_t j, float feature) {
	float d = feature - eusn_center[j];
	uint32_t c;
	if (EUSN_LIMITED) d = eusn_limit(d, eusn_limits[j]);
	for (c = 0; c < EUSN_COLUMNS; c++) scores[c] = eusn_fma(eusn_weights[c * EUSN_FEATURES + j], d, scores[c]);
}
