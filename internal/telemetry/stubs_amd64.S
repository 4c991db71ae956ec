//go:build linux && cgo && !nonvml

// Every function of NVML: a jump through its slot (slots.c). The names are
// hidden, so that NVML's own calls of them stay inside NVML.
#define F(i, name) \
	.globl name; .hidden name; .type name, @function; \
	name: jmp *(eusn_nvml_slots + 8*i)(%rip); \
	.size name, . - name;

	.text
#include "functions.h"

	.section .note.GNU-stack, "", @progbits
