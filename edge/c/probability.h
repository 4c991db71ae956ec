
/* 1 + q*s, rounded once, for q of -1 to 0 and s of 1/4 to 1. */
static double eusn_fma_one(double q, double s) {
#if defined(__FP_FAST_FMA) || defined(__FMA__) || (defined(__ARM_FEATURE_FMA) && defined(__ARM_FP) && (__ARM_FP & 8))
	return __builtin_fma(q, s, 1);
#else
	eusn_long_word a, b;
	uint64_t x, y, low, middle, high, product;
	int shift;
	a.f = -q;
	b.f = s;
	if (a.f < 0x1p-55) return 1;
	x = (a.u & UINT64_C(0xfffffffffffff)) | UINT64_C(0x10000000000000);
	y = (b.u & UINT64_C(0xfffffffffffff)) | UINT64_C(0x10000000000000);
	low = (x & UINT32_MAX) * (y & UINT32_MAX);
	middle = (x >> 32) * (y & UINT32_MAX) + (low >> 32);
	low &= UINT32_MAX;
	high = (x >> 32) * (y >> 32) + (middle >> 32);
	middle = (middle & UINT32_MAX) + (x & UINT32_MAX) * (y >> 32);
	high += middle >> 32;
	low |= middle << 32; /* x * y = high, low */
	/* The product in units of 2^-63, its last bit 1 where something is left behind it. */
	shift = 2 * 1075 - 63 - (int)(a.u >> 52) - (int)(b.u >> 52);
	if (shift < 64) product = high << (64 - shift) | low >> shift | (low << (64 - shift) != 0);
	else if (shift == 64) product = high | (low != 0);
	else product = high >> (shift - 64) | ((high << (128 - shift) | low) != 0);
	product = (UINT64_C(1) << 63) - product;
	return ((double)(uint32_t)(product >> 32) * 0x1p32 + (double)(uint32_t)product) * 0x1p-63;
#endif
}

/* How likely a class is whose score is so much lower, relative to the other. */
static double eusn_relative(double lower) {
	double x = EUSN_TEMPERATURE * lower, sum = 1;
	volatile double y; /* so that no compiler joins a product and a sum */
	int squares = 0, k;
	if (!(x <= 708)) return x != x ? x : 0;
	for (; x > 1; squares++) x /= 2;
	for (k = 18; k > 0; k--) sum = eusn_fma_one(-x / k, sum);
	for (y = sum; squares > 0; squares--) y = y * y;
	return y;
}

float eusn_probability(const float *scores) {
	double sum = 0;
	uint32_t c;
	if (EUSN_CLASSES == 2) {
		sum = 1 + eusn_relative(scores[0] < 0 ? -(double)scores[0] : (double)scores[0]);
	} else {
		double top = scores[eusn_class(scores)];
		for (c = 0; c < EUSN_CLASSES; c++) sum += eusn_relative(top - (double)scores[c]);
	}
	return sum >= 1 ? (float)(1 / sum) : 0;
}
