#ifndef EUSN_NVML_SLOTS_H
#define EUSN_NVML_SLOTS_H

#include <stddef.h>

// eusn_nvml_bind opens the library and points every slot at its function. It
// returns 0 with the reason in why, and changes no slot, if the library cannot
// be opened or is too old. Otherwise the library stays open, because slots point
// into it. One thread at a time, and no call of NVML meanwhile.
int eusn_nvml_bind(const char *path, char *why, size_t room);

#endif
