
int eusn_class(const float *scores) {
	uint32_t c, best = 0;
	if (EUSN_CLASSES == 2) return scores[0] > 0;
	for (c = 1; c < EUSN_CLASSES; c++) {
		if (scores[c] > scores[best]) best = c;
	}
	return (int)best;
}
