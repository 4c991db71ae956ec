
static float eusn_clip(float x) {
#ifdef EUSN_LEAST
	if (x < EUSN_LEAST) return EUSN_LEAST;
	if (x > EUSN_MOST) return EUSN_MOST;
#endif
	return x;
}

float eusn_value(const float *scores, float *low, float *high) {
	*low = eusn_clip(scores[0] + EUSN_LOW);
	*high = eusn_clip(scores[0] + EUSN_HIGH);
	return eusn_clip(scores[0]);
}
