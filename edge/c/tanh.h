
/* tanh by polynomials of degree 5 in 16 intervals; not the C library's, whose bits differ
   from one library to the next. */
static float eusn_tanh(float x) {
	uint32_t bits = eusn_u(x), v;
	float a = eusn_f(bits & UINT32_C(0x7fffffff)), d, r;
	int i, k;
	if (a > EUSN_TANH_SATURATION) a = EUSN_TANH_SATURATION;
	v = eusn_u(a + EUSN_TANH_SHIFT);
	d = a - (eusn_f(v & UINT32_C(0xffe00000)) - EUSN_TANH_SHIFT);
	i = (int)(v >> 21 & 15);
	r = eusn_tanh_table[5 * 16 + i];
	for (k = 4; k >= 0; k--) r = eusn_fma(r, d, eusn_tanh_table[k * 16 + i]);
	if (r > 1) r = 1;
	return eusn_f(eusn_u(r) | (bits & UINT32_C(0x80000000)));
}
