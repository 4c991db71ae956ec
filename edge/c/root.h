
/* The square root of a positive float32, rounded to nearest, bit by bit. */
static float eusn_root(float x) {
	uint32_t u = eusn_u(x), root = 0, bit;
	uint64_t mantissa = u & UINT32_C(0x7fffff), square;
	int exponent = (int)(u >> 23) - 150; /* x = mantissa * 2^exponent */
	if (u >> 23) mantissa |= UINT32_C(0x800000);
	else exponent++;
	while (mantissa < UINT32_C(0x800000)) { /* subnormal */
		mantissa <<= 1;
		exponent--;
	}
	if (!(exponent & 1)) {
		mantissa <<= 1;
		exponent--;
	}
	square = mantissa << 25; /* 2^48 to 2^50: the root has 24 bits, and one that says how to round */
	for (bit = UINT32_C(1) << 24; bit; bit >>= 1) {
		uint64_t next = root | bit;
		if (next * next <= square) root |= bit;
	}
	/* It is never in the middle: square is even, and the square of an odd number is not. */
	return (float)((root >> 1) + (root & 1)) * eusn_f((uint32_t)((exponent - 25) / 2 + 1 + 127) << 23);
}
