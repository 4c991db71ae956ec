/* Writes what the header's arithmetic makes of the numbers in SERIES: of each three
   float32 a, b, c the bits of fma(a, b, c), tanh(a), root(|a|), and of the likelihood of
   a score that is |b| lower. */

#define EUSN_IMPLEMENTATION
#include "model.h"
#include <stdio.h>

__asm__(".pushsection .rodata\n.balign 4\n.global numbers\nnumbers:\n.incbin \"" SERIES "\"\n.popsection\n");
extern const uint32_t numbers[];

int main(void) {
	uint32_t i;
	for (i = 0; i < numbers[0]; i++) {
		const uint32_t *n = numbers + 1 + 3 * i;
		uint32_t a = n[0] & UINT32_C(0x7fffffff), b = n[1] & UINT32_C(0x7fffffff);
		eusn_long_word y;
		y.f = eusn_relative((double)eusn_f(b));
		printf("%08x %08x %08x %016llx\n", (unsigned)eusn_u(eusn_fma(eusn_f(n[0]), eusn_f(n[1]), eusn_f(n[2]))), (unsigned)eusn_u(eusn_tanh(eusn_f(n[0]))),
			a ? (unsigned)eusn_u(eusn_root(eusn_f(a))) : 0, (unsigned long long)y.u);
	}
	puts("end");
	return 0;
}
