
float eusn_value(const float *scores, float *low, float *high) {
	*low = scores[0] + EUSN_LOW;
	*high = scores[0] + EUSN_HIGH;
	return scores[0];
}
