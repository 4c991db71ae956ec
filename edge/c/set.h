
int eusn_set(const float *scores, unsigned char *in) {
	double top, sum = 0;
	uint32_t c;
	int count = 0;
	if (EUSN_CLASSES == 2) top = scores[0] > 0 ? (double)scores[0] : 0;
	else top = scores[eusn_class(scores)];
	for (c = 0; c < EUSN_CLASSES; c++) sum += eusn_relative(top - (EUSN_CLASSES == 2 ? (c ? (double)scores[0] : 0) : (double)scores[c]));
	for (c = 0; c < EUSN_CLASSES; c++) {
		in[c] = eusn_relative(top - (EUSN_CLASSES == 2 ? (c ? (double)scores[0] : 0) : (double)scores[c])) / sum >= eusn_least[c];
		count += in[c];
	}
	return count;
}
