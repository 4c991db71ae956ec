
/* The operating regime with the nearest center; products are stored, so that no compiler
   fuses them with a sum. */
static uint32_t eusn_regime(const float *sample) {
	double least = 0;
	uint32_t r, j, nearest = 0;
	for (r = 0; r < EUSN_REGIMES; r++) {
		double sum = 0;
		for (j = 0; j < EUSN_SETTINGS; j++) {
			volatile double product = ((double)sample[eusn_settings[j]] - eusn_setting_mean[j]) * eusn_setting_scale[j];
			double d = product - eusn_regime_centers[r * EUSN_SETTINGS + j];
			product = d * d;
			sum += product;
		}
		if (r == 0 || sum < least) {
			least = sum;
			nearest = r;
		}
	}
	return nearest;
}

static float eusn_regime_value(float x, uint32_t regime, uint32_t c) {
	float mean = eusn_regime_means[regime * EUSN_CHANNELS + c], scale = eusn_regime_scales[regime * EUSN_CHANNELS + c];
	return eusn_limit((float)(((double)x - (double)mean) * (double)scale), 1e15f);
}
