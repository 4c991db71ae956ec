//go:build linux && cgo && !nonvml && (amd64 || arm64)

#include "slots.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define F(i, name) [i] = #name,
#include "functions.h"
#undef F
};

enum { N = sizeof names / sizeof *names };

// The stubs jump through these.
__attribute__((visibility("hidden"))) void *eusn_nvml_slots[N];

static int absent(void) { return 13; } // NVML_ERROR_FUNCTION_NOT_FOUND
static const char *no_text(int code) { (void)code; return "no text for this error"; }

// fill points the slots at the functions of lib. What lib lacks answers that
// it is absent; one function returns text and not a code.
static void fill(void *lib) {
  for (int i = 0; i < N; i++) {
    void *f = lib ? dlsym(lib, names[i]) : NULL;
    if (!f) f = strcmp(names[i], "nvmlErrorString") ? (void *)absent : (void *)no_text;
    eusn_nvml_slots[i] = f;
  }
}

__attribute__((constructor)) static void start(void) { fill(NULL); }

// The functions behind a Reading. Those with a version are old enough for every
// driver that package gpu runs on.
static const char *const required[] = {
    "nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperature",
};

int eusn_nvml_bind(const char *path, char *why, size_t room) {
  void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!lib) {
    snprintf(why, room, "%s", dlerror());
    return 0;
  }
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
    if (dlsym(lib, required[i])) continue;
    snprintf(why, room, "%s has no %s: the driver is too old", path, required[i]);
    dlclose(lib);
    return 0;
  }
  fill(lib);
  return 1;
}
