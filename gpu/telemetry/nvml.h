// Our own declarations of the part of NVML that we read.
#ifndef EUSN_NVML_H
#define EUSN_NVML_H

#include <stddef.h>

typedef struct eusn_nvml eusn_nvml;

typedef struct {
  char name[96], uuid[96], pci[32];
  unsigned long long energy_mj, memory_total, memory_used;
  unsigned power_mw, busy, memory_busy, temperature;
  // Results of the calls behind the fields; 0 is a value.
  int uuid_rc, energy_rc, power_rc, memory_rc, busy_rc, temperature_rc;
} eusn_reading;

// eusn_nvml_open returns NULL with a sentence in why, or an initialised library.
eusn_nvml *eusn_nvml_open(const char *path, char *why, size_t room);
int eusn_nvml_count(eusn_nvml *n, unsigned *count);
int eusn_nvml_read(eusn_nvml *n, unsigned index, eusn_reading *r);
const char *eusn_nvml_text(eusn_nvml *n, int code);
int eusn_nvml_close(eusn_nvml *n);

#endif
