/* Arithmetic: float32, one rounding for each operation, the same bits everywhere. */

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__) || \
	(defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(_M_FP_FAST)
#error "-ffast-math and -Ofast change results: compile this file without them"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "this target computes float32 with another precision: on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif
#if FLT_MANT_DIG != 24 || DBL_MANT_DIG != 53
#error "this file needs float and double of IEEE 754, of 32 and 64 bits"
#endif

typedef union {
	float f;
	uint32_t u;
} eusn_word;

typedef union {
	double f;
	uint64_t u;
} eusn_long_word;

static float eusn_f(uint32_t u) {
	eusn_word w;
	w.u = u;
	return w.f;
}

static uint32_t eusn_u(float f) {
	eusn_word w;
	w.f = f;
	return w.u;
}

/* a*b + c, rounded once. The fmaf of some C libraries rounds twice, so that it is used
   only where it is an instruction. */
static float eusn_fma(float a, float b, float c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || (defined(__ARM_FEATURE_FMA) && defined(__ARM_FP) && (__ARM_FP & 4))
	return __builtin_fmaf(a, b, c);
#else
	double product = (double)a * (double)b; /* exact */
	eusn_long_word s;
	s.f = product + (double)c;
	/* A second rounding could differ in the middle between two float32, and near the
	   subnormals. There the sum is rounded to odd first, which a second rounding does
	   not spoil (Boldo and Melquiond, 2008). */
	if (((s.u & UINT64_C(0x1fffffff)) == UINT64_C(0x10000000) || (s.u << 1) < (UINT64_C(898) << 53)) && s.f - s.f == 0) {
		double first = s.f - (double)c, second = s.f - first;
		double rest = (product - first) + ((double)c - second); /* exact: product + c = s + rest */
		if (rest != 0 && (s.u & 1) == 0) {
			if ((rest > 0) == (s.f > 0)) s.u++;
			else s.u--;
		}
	}
	return (float)s.f;
#endif
}

static float eusn_limit(float x, float most) { return x > most ? most : x < -most ? -most : x; }
