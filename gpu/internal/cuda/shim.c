//go:build linux && cgo

#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// Every driver function we call: field, exported name, parameters.
#define FUNCTIONS(F) \
  F(init, cuInit, (unsigned)) \
  F(version, cuDriverGetVersion, (int *)) \
  F(count, cuDeviceGetCount, (int *)) \
  F(device, cuDeviceGet, (int *, int)) \
  F(device_name, cuDeviceGetName, (char *, int, int)) \
  F(device_pci, cuDeviceGetPCIBusId, (char *, int, int)) \
  F(device_memory, cuDeviceTotalMem_v2, (size_t *, int)) \
  F(attribute, cuDeviceGetAttribute, (int *, int, int)) \
  F(retain, cuDevicePrimaryCtxRetain, (void **, int)) \
  F(release, cuDevicePrimaryCtxRelease_v2, (int)) \
  F(set_current, cuCtxSetCurrent, (void *)) \
  F(memory_info, cuMemGetInfo_v2, (size_t *, size_t *)) \
  F(module_load, cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **)) \
  F(module_unload, cuModuleUnload, (void *)) \
  F(module_function, cuModuleGetFunction, (void **, void *, const char *)) \
  F(function_set, cuFuncSetAttribute, (void *, int, int)) \
  F(alloc, cuMemAlloc_v2, (uint64_t *, size_t)) \
  F(free, cuMemFree_v2, (uint64_t)) \
  F(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned)) \
  F(host_free, cuMemFreeHost, (void *)) \
  F(stream_create, cuStreamCreate, (void **, unsigned)) \
  F(stream_destroy, cuStreamDestroy_v2, (void *)) \
  F(stream_sync, cuStreamSynchronize, (void *)) \
  F(stream_wait, cuStreamWaitEvent, (void *, void *, unsigned)) \
  F(event_create, cuEventCreate, (void **, unsigned)) \
  F(event_destroy, cuEventDestroy_v2, (void *)) \
  F(event_record, cuEventRecord, (void *, void *)) \
  F(event_sync, cuEventSynchronize, (void *)) \
  F(copy_up, cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *)) \
  F(copy_down, cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *)) \
  F(fill, cuMemsetD32Async, (uint64_t, unsigned, size_t, void *)) \
  F(launch, cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
  F(error_name, cuGetErrorName, (int, const char **)) \
  F(error_text, cuGetErrorString, (int, const char **))

struct eusn_driver {
#define FIELD(field, name, parameters) int(*field) parameters;
  FUNCTIONS(FIELD)
};

enum { // constants of the driver interface
  ATTRIBUTE_MAX_DYNAMIC_SHARED = 8,
  JIT_ERROR_LOG = 5,
  JIT_ERROR_LOG_BYTES = 6,
  STREAM_NON_BLOCKING = 1,
  EVENT_DISABLE_TIMING = 2,
  INVALID_VALUE = 1,
};

int eusn_open(const char *path, eusn_driver **out, char *why, size_t room) {
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    snprintf(why, room, "%s", dlerror());
    return EUSN_NO_LIBRARY;
  }
  eusn_driver *d = calloc(1, sizeof *d);
  const char *missing = d ? NULL : "memory";
#define FIND(field, name, parameters) \
  if (!missing && !(*(void **)&d->field = dlsym(lib, #name))) missing = #name;
  FUNCTIONS(FIND)
  if (missing) {
    snprintf(why, room, "%s", missing);
    free(d);
    dlclose(lib);
    return EUSN_NO_SYMBOL;
  }
  *out = d; // the library stays loaded: a driver cannot be unloaded safely
  return 0;
}

#define TRY(call) \
  do { \
    int result_ = (call); \
    if (result_) return result_; \
  } while (0)

int eusn_init(eusn_driver *d, int *version, int *devices) {
  TRY(d->version(version)); // works without a device
  TRY(d->init(0));
  return d->count(devices);
}

int eusn_device(eusn_driver *d, int ordinal, int *dev, char *name, char *pci, size_t room, size_t *memory) {
  TRY(d->device(dev, ordinal));
  TRY(d->device_name(name, (int)room, *dev));
  TRY(d->device_pci(pci, (int)room, *dev));
  return d->device_memory(memory, *dev);
}

int eusn_attribute(eusn_driver *d, int dev, int which, int *value) { return d->attribute(value, which, dev); }

const char *eusn_error_name(eusn_driver *d, int code) {
  const char *s = NULL;
  return d->error_name(code, &s) || !s ? "" : s;
}

const char *eusn_error_text(eusn_driver *d, int code) {
  const char *s = NULL;
  return d->error_text(code, &s) || !s ? "" : s;
}

int eusn_retain(eusn_driver *d, int dev, void **ctx) { return d->retain(ctx, dev); }
int eusn_release(eusn_driver *d, int dev) { return d->release(dev); }

int eusn_memory(eusn_driver *d, void *ctx, size_t *free, size_t *total) {
  TRY(d->set_current(ctx));
  return d->memory_info(free, total);
}

int eusn_load(eusn_driver *d, void *ctx, const void *image, void **module, char *log, size_t room) {
  int keys[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)room};
  TRY(d->set_current(ctx));
  return d->module_load(module, image, 2, keys, values);
}

int eusn_function(eusn_driver *d, void *ctx, void *module, const char *name, int shared, void **fn) {
  TRY(d->set_current(ctx));
  TRY(d->module_function(fn, module, name));
  return shared > 0 ? d->function_set(*fn, ATTRIBUTE_MAX_DYNAMIC_SHARED, shared) : 0;
}

int eusn_create(eusn_driver *d, void *ctx, int kind, size_t bytes, uint64_t *handle) {
  void *p = NULL;
  int result = INVALID_VALUE;
  TRY(d->set_current(ctx));
  switch (kind) {
  case EUSN_DEVICE_MEMORY: return d->alloc(handle, bytes);
  case EUSN_PINNED_MEMORY: result = d->host_alloc(&p, bytes, 0); break;
  case EUSN_STREAM: result = d->stream_create(&p, STREAM_NON_BLOCKING); break;
  case EUSN_EVENT: result = d->event_create(&p, EVENT_DISABLE_TIMING); break;
  }
  *handle = (uint64_t)(uintptr_t)p;
  return result;
}

int eusn_destroy(eusn_driver *d, void *ctx, int kind, uint64_t handle) {
  void *p = (void *)(uintptr_t)handle;
  TRY(d->set_current(ctx));
  switch (kind) {
  case EUSN_DEVICE_MEMORY: return d->free(handle);
  case EUSN_PINNED_MEMORY: return d->host_free(p);
  case EUSN_STREAM: return d->stream_destroy(p);
  case EUSN_EVENT: return d->event_destroy(p);
  case EUSN_MODULE: return d->module_unload(p);
  }
  return INVALID_VALUE;
}

static int queue(eusn_driver *d, void *stream, const eusn_op *o, const char *params) {
  void *handle = (void *)(uintptr_t)o->handle, *host = (void *)(uintptr_t)o->host;
  void *argument[] = {(void *)(params + o->value)};
  switch (o->kind) {
  case EUSN_UP: return d->copy_up(o->device, host, o->bytes, stream);
  case EUSN_DOWN: return d->copy_down(host, o->device, o->bytes, stream);
  case EUSN_FILL: return d->fill(o->device, o->value, o->bytes / 4, stream);
  case EUSN_WAIT: return d->stream_wait(stream, handle, 0);
  case EUSN_RECORD: return d->event_record(handle, stream);
  case EUSN_LAUNCH:
    return d->launch(handle, o->grid_x, o->grid_y, o->grid_z, o->block, 1, 1, o->shared, stream, argument, NULL);
  }
  return INVALID_VALUE;
}

int eusn_submit(eusn_driver *d, void *ctx, uint64_t stream, const eusn_op *ops, size_t n, const void *params, size_t *done) {
  *done = 0;
  TRY(d->set_current(ctx));
  for (; *done < n; ++*done) TRY(queue(d, (void *)(uintptr_t)stream, &ops[*done], params));
  return 0;
}

int eusn_sync_event(eusn_driver *d, void *ctx, uint64_t event) {
  TRY(d->set_current(ctx));
  return d->event_sync((void *)(uintptr_t)event);
}

int eusn_sync_stream(eusn_driver *d, void *ctx, uint64_t stream) {
  TRY(d->set_current(ctx));
  return d->stream_sync((void *)(uintptr_t)stream);
}
