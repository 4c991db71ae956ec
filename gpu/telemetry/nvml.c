//go:build linux && cgo

#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } utilisation_info;
typedef struct { // nvmlPciInfo_t
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} pci_info;

// The versions with a suffix are old enough for every driver the engine runs on.
#define FUNCTIONS(F) \
  F(init, nvmlInit_v2, (void)) \
  F(shutdown, nvmlShutdown, (void)) \
  F(count, nvmlDeviceGetCount_v2, (unsigned *)) \
  F(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned, void **)) \
  F(name, nvmlDeviceGetName, (void *, char *, unsigned)) \
  F(uuid, nvmlDeviceGetUUID, (void *, char *, unsigned)) \
  F(pci, nvmlDeviceGetPciInfo_v3, (void *, pci_info *)) \
  F(energy, nvmlDeviceGetTotalEnergyConsumption, (void *, unsigned long long *)) \
  F(power, nvmlDeviceGetPowerUsage, (void *, unsigned *)) \
  F(memory, nvmlDeviceGetMemoryInfo, (void *, memory_info *)) \
  F(busy, nvmlDeviceGetUtilizationRates, (void *, utilisation_info *)) \
  F(temperature, nvmlDeviceGetTemperature, (void *, unsigned, unsigned *))

struct eusn_nvml {
  void *lib;
  const char *(*text)(int);
#define FIELD(field, name, parameters) int(*field) parameters;
  FUNCTIONS(FIELD)
};

eusn_nvml *eusn_nvml_open(const char *path, char *why, size_t room) {
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    snprintf(why, room, "%s", dlerror());
    return NULL;
  }
  eusn_nvml *n = calloc(1, sizeof *n);
  const char *missing = n ? NULL : "memory";
#define FIND(field, name, parameters) \
  if (!missing && !(*(void **)&n->field = dlsym(lib, #name))) missing = #name;
  FUNCTIONS(FIND)
  if (!missing && !(*(void **)&n->text = dlsym(lib, "nvmlErrorString"))) missing = "nvmlErrorString";
  int r = 0;
  if (missing) {
    snprintf(why, room, "%s has no %s: the driver is too old", path, missing);
  } else if ((r = n->init())) {
    snprintf(why, room, "nvmlInit: %s (error %d)", n->text(r), r);
  } else {
    n->lib = lib;
    return n;
  }
  free(n);
  dlclose(lib);
  return NULL;
}

int eusn_nvml_count(eusn_nvml *n, unsigned *count) { return n->count(count); }
const char *eusn_nvml_text(eusn_nvml *n, int code) { return n->text(code); }

int eusn_nvml_read(eusn_nvml *n, unsigned index, eusn_reading *r) {
  void *device;
  pci_info pci;
  memory_info memory;
  utilisation_info busy;
  memset(r, 0, sizeof *r);
  int rc = n->handle(index, &device);
  if (rc || (rc = n->name(device, r->name, sizeof r->name)) || (rc = n->pci(device, &pci))) return rc;
  // The driver interface writes the domain with four digits, NVML with eight.
  snprintf(r->pci, sizeof r->pci, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
  if ((r->uuid_rc = n->uuid(device, r->uuid, sizeof r->uuid))) r->uuid[0] = 0;
  if ((r->energy_rc = n->energy(device, &r->energy_mj))) r->energy_mj = 0; // a failed call may have written something
  if ((r->power_rc = n->power(device, &r->power_mw))) r->power_mw = 0;
  if (!(r->memory_rc = n->memory(device, &memory))) {
    r->memory_total = memory.total;
    r->memory_used = memory.used;
  }
  if (!(r->busy_rc = n->busy(device, &busy))) {
    r->busy = busy.gpu;
    r->memory_busy = busy.memory;
  }
  if ((r->temperature_rc = n->temperature(device, 0, &r->temperature))) r->temperature = 0;
  return 0;
}

int eusn_nvml_close(eusn_nvml *n) {
  int r = n->shutdown();
  dlclose(n->lib);
  free(n);
  return r;
}
