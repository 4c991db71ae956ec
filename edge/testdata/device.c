/* Runs the series in SERIES through model.h and writes, at every mark, the hash of the
   state, the bits of each score, the class and the bits of the probability. Hosted, or
   without any library: on Linux by system calls, on Cortex-M by semihosting. */

#define EUSN_IMPLEMENTATION
#include "model.h"

#if defined(HOSTED)
#include <stdio.h>
static void put(const char *text) { fputs(text, stdout); }
#elif defined(SEMIHOSTING)
static int host(int call, const void *argument) {
	register int r0 __asm__("r0") = call;
	register const void *r1 __asm__("r1") = argument;
	__asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
	return r0;
}
static void put(const char *text) { host(4, text); }
#else
static long call(long number, long a, long b, long c) {
#if defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
	register long r7 __asm__("r7") = number, r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c;
	__asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
	return r0;
#endif
}
static void put(const char *text) {
	long n = 0;
	while (text[n]) n++;
#if defined(__aarch64__)
	call(64, 1, (long)text, n);
#else
	call(4, 1, (long)text, n);
#endif
}
#endif

#if !defined(HOSTED)
/* What a compiler may call without being asked to. */
void *memset(void *to, int c, unsigned long n);
void *memcpy(void *to, const void *from, unsigned long n);
void *memset(void *to, int c, unsigned long n) {
	volatile unsigned char *p = to;
	while (n--) *p++ = (unsigned char)c;
	return to;
}
void *memcpy(void *to, const void *from, unsigned long n) {
	volatile unsigned char *p = to;
	const unsigned char *q = from;
	while (n--) *p++ = *q++;
	return to;
}
#endif

__asm__(".pushsection .rodata\n.balign 4\n.global eusn_series\neusn_series:\n.incbin \"" SERIES "\"\n.popsection\n");
extern const uint32_t eusn_series[]; /* how many; of each: samples, then values; how often to say something */

static char line[32 + 9 * EUSN_COLUMNS];

static char *hexadecimal(char *to, uint32_t v) {
	int i;
	for (i = 28; i >= 0; i -= 4) *to++ = "0123456789abcdef"[v >> i & 15];
	*to++ = ' ';
	return to;
}

static void say(const eusn_state *s) {
	float scores[EUSN_COLUMNS], probability = 0, low = 0, high = 0;
	uint32_t i, hash = UINT32_C(2166136261), class = 0;
	char *to = line;
	for (i = 0; i < EUSN_WORDS; i++) hash = (hash ^ s->words[i]) * UINT32_C(16777619);
	eusn_scores(s, scores);
	to = hexadecimal(to, hash);
	for (i = 0; i < EUSN_COLUMNS; i++) to = hexadecimal(to, eusn_u(scores[i]));
#if defined(EUSN_LOW)
	probability = eusn_value(scores, &low, &high) + low + high;
#else
	class = (uint32_t)eusn_class(scores);
#endif
#if defined(EUSN_TEMPERATURE)
	probability = eusn_probability(scores);
#endif
#if defined(SETS)
	{
		unsigned char in[EUSN_CLASSES];
		eusn_set(scores, in);
		for (i = 0; i < EUSN_CLASSES; i++) class |= (uint32_t)in[i] << (8 + i);
		class |= (uint32_t)eusn_answers(probability) << 31;
	}
#endif
	(void)low, (void)high;
	to = hexadecimal(to, class);
	to = hexadecimal(to, eusn_u(probability));
	to[-1] = '\n';
	*to = 0;
	put(line);
}

static eusn_state state;

int main(void) {
	const uint32_t *p = eusn_series;
	uint32_t series = *p++, every = *p++, t;
	if (eusn_selftest(&state)) put("the test of itself failed\n");
	for (; series > 0; series--) {
		uint32_t samples = *p++, left = every;
		eusn_reset(&state);
		for (t = 1; t <= samples; t++, p += EUSN_CHANNELS) {
			eusn_push(&state, (const float *)p);
			if (--left == 0) {
				say(&state);
				left = every;
			}
		}
		say(&state);
	}
	put("end\n");
	return 0;
}

#if defined(SEMIHOSTING)
extern uint32_t stack_top[], data_load[], data_begin[], data_end[], bss_begin[], bss_end[];
void reset(void);
static void fault(void) {
	put("fault\n");
	host(0x18, (void *)0x20023);
	for (;;) {}
}
void reset(void) {
	uint32_t *to = data_begin, *from = data_load;
	while (to < data_end) *to++ = *from++;
	for (to = bss_begin; to < bss_end; to++) *to = 0;
#if defined(__ARM_FP)
	*(volatile uint32_t *)0xe000ed88 |= 0xf << 20; /* the floating-point unit on */
	__asm__ volatile("dsb\nisb");
#endif
	main();
	host(0x18, (void *)0x20026);
	for (;;) {}
}
__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
	(void (*)(void))stack_top, reset, fault, fault, fault, fault, fault,
};
#elif !defined(HOSTED)
void _start(void);
void _start(void) {
	main();
#if defined(__aarch64__)
	call(93, 0, 0, 0);
#else
	call(1, 0, 0, 0);
#endif
}
#endif
