//go:build linux && cgo && !nonvml

// Every function of NVML: a jump through its slot (slots.c). The names are
// hidden, so that NVML's own calls of them stay inside NVML.
#define F(i, name) \
	.globl name; .hidden name; .type name, %function; \
	name: adrp x16, eusn_nvml_slots + 8*i; \
	ldr x16, [x16, :lo12:eusn_nvml_slots + 8*i]; \
	br x16; \
	.size name, . - name;

	.text
#include "functions.h"

	.section .note.GNU-stack, "", %progbits
