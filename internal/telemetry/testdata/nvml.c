// An NVML for tests: two GPUs, the second of which tells little.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } utilization_info;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;

enum { NOT_SUPPORTED = 3, LOST = 15 };
static unsigned long long energy = 5000;
static char devices[2]; // handles are their addresses
#define INDEX(d) ((int)((char *)(d) - devices))

int nvmlInit_v2(void) { return getenv("EUSN_FAKE_NVML_FAIL") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &devices[i]; const char *lost = getenv("EUSN_FAKE_NVML_LOST"); return lost && atoi(lost) == (int)i ? LOST : 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { snprintf(s, n, "Fake GPU %d", INDEX(d)); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%d", INDEX(d)); return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, pci_info *p) {
  memset(p, 0, sizeof *p);
  p->bus = 0x1b + (unsigned)INDEX(d);
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj) { *mj = energy += 1500; return INDEX(d) == 0 ? 0 : NOT_SUPPORTED; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 98500; return INDEX(d) == 0 ? 0 : NOT_SUPPORTED; }
int nvmlDeviceGetMemoryInfo(void *d, memory_info *m) { (void)d; *m = (memory_info){1000, 400, 600}; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, utilization_info *u) { (void)d; *u = (utilization_info){75, 20}; return 0; }
int nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *t) { (void)d; *t = 41; return sensor ? 2 : 0; }
#ifndef OLD
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : code == LOST ? "GPU is lost" : "?"; }
#endif
