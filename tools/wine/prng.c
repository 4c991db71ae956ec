// The one function that Go wants of bcryptprimitives.dll, which Wine 8 does not have. For
// the check under Wine alone.
__declspec(dllexport) int ProcessPrng(unsigned char *p, unsigned long long n) {
	while (n > 0) {
		unsigned long long r;
		while (!__builtin_ia32_rdrand64_step(&r)) {}
		for (int i = 0; i < 8 && n > 0; i++, n--, r >>= 8) *p++ = (unsigned char)r;
	}
	return 1;
}
