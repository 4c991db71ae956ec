// Devices, contexts, memory, modules and settings.
#define _GNU_SOURCE // protection keys
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
fake_hooks hooks;
context contexts[MAX_DEVICES];
memory *device_memory, *pinned_memory;
long live_modules, created;
_Thread_local context *current;

static int initialized;
static function *functions;

static struct { const char *key; long value, normal; } settings[] = {
  {"devices", 1, 1}, {"driver", 12040, 12040}, {"major", 9, 9}, {"minor", 0, 0}, {"memory", 1 << 30, 1 << 30},
  {"fail_init", 0, 0}, {"oom_at", 0, 0}, {"fail_launch", 0, 0}, {"fail_code", LAUNCH_FAILED, LAUNCH_FAILED}, {"order", 0, 0}, {"skip_launches", 0, 0},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

long setting(const char *key) {
  for (int i = 0; i < SETTINGS; i++)
    if (!strcmp(settings[i].key, key)) return settings[i].value;
  abort();
}

// fake_set changes a setting and reports whether there is such a one.
API int fake_set(const char *key, long value) {
  LOCKED;
  for (int i = 0; i < SETTINGS; i++)
    if (!strcmp(settings[i].key, key)) {
      settings[i].value = value;
      return 1;
    }
  return 0;
}

// fake_reset makes everything as it was at first; what leaked stays counted.
API void fake_reset(void) {
  LOCKED;
  for (int i = 0; i < SETTINGS; i++) settings[i].value = settings[i].normal;
  launches = created = submitted = waits = 0;
  for (int i = 0; i < MAX_DEVICES; i++) contexts[i].sticky = 0;
}

API void fake_set_hooks(const fake_hooks *h) {
  LOCKED;
  hooks = *h;
}

// fake_count gives a counter, -1 for one that does not exist.
API long fake_count(const char *what) {
  LOCKED;
  long n = 0;
  if (!strcmp(what, "launches")) return launches;
  if (!strcmp(what, "created")) return created;
  if (!strcmp(what, "submitted")) return submitted;
  if (!strcmp(what, "waits")) return waits;
  if (!strcmp(what, "live")) { // everything that must be given back
    for (memory *m = device_memory; m; m = m->next) n++;
    for (memory *m = pinned_memory; m; m = m->next) n++;
    for (int i = 0; i < MAX_DEVICES; i++) n += contexts[i].references;
    return n + live_streams + live_events + live_modules;
  }
  for (int i = 0; i < MAX_DEVICES; i++) {
    char key[16];
    snprintf(key, sizeof key, "used%d", i);
    if (!strcmp(what, key)) return contexts[i].used;
  }
  return -1;
}

// Settings for a program that cannot call fake_set: EUSN_FAKE="devices=0 driver=11000".
__attribute__((constructor)) static void from_environment(void) {
  const char *e = getenv("EUSN_FAKE");
  char *text = e ? strdup(e) : NULL, *rest = text;
  for (char *word; rest && (word = strsep(&rest, " "));) {
    char *value = strchr(word, '=');
    if (!value) continue;
    *value = 0;
    if (!fake_set(word, atol(value + 1))) fprintf(stderr, "fake driver: EUSN_FAKE: no setting %s\n", word);
  }
  free(text);
}

int check(void) {
  if (!initialized) return NOT_INITIALIZED;
  if (!current || !current->references) return INVALID_CONTEXT;
  return current->sticky;
}

int may_create(void) { return ++created == setting("oom_at") ? OUT_OF_MEMORY : OK; }

// The protection key of all device memory, which opens and closes it for one thread in
// nanoseconds; negative where the processor has none.
static int device_key(void) {
  static int key;
  if (!key) key = pkey_alloc(0, PKEY_DISABLE_ACCESS); // never 0, the key of all other memory
  return key;
}

// Without a key each operation changes the pages, which takes tens of microseconds.
void device_access(int allowed) {
  int key = device_key();
  if (key >= 0) {
    pkey_set(key, allowed ? 0 : PKEY_DISABLE_ACCESS);
    return;
  }
  for (memory *m = device_memory; m; m = m->next) mprotect(m->base, m->mapped - 4096, allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

memory *inside(memory *list, context *owner, uint64_t address, size_t bytes) {
  for (memory *m = list; m; m = m->next)
    if (m->owner == owner && address >= m->address && address - m->address <= m->bytes && bytes <= m->bytes - (address - m->address)) return m;
  return NULL;
}

API int cuInit(unsigned flags) {
  LOCKED;
  if (flags) return INVALID_VALUE;
  if (setting("fail_init")) return (int)setting("fail_init");
  initialized = 1;
  for (int i = 0; i < MAX_DEVICES; i++) contexts[i].ordinal = i;
  return setting("devices") ? OK : NO_DEVICE;
}

API int cuDriverGetVersion(int *v) {
  LOCKED;
  *v = (int)setting("driver");
  return OK;
}

API int cuDeviceGetCount(int *n) {
  LOCKED;
  *n = (int)setting("devices");
  return initialized ? OK : NOT_INITIALIZED;
}

static int check_device(int d) { return !initialized ? NOT_INITIALIZED : d < 0 || d >= setting("devices") || d >= MAX_DEVICES ? INVALID_DEVICE : OK; }

API int cuDeviceGet(int *d, int ordinal) {
  LOCKED;
  *d = ordinal;
  return check_device(ordinal);
}

API int cuDeviceGetName(char *s, int room, int d) {
  LOCKED;
  snprintf(s, room, "Fake GPU %d", d);
  return check_device(d);
}

API int cuDeviceGetPCIBusId(char *s, int room, int d) {
  LOCKED;
  snprintf(s, room, "0000:%02x:00.0", d + 1);
  return check_device(d);
}

API int cuDeviceTotalMem_v2(size_t *bytes, int d) {
  LOCKED;
  *bytes = setting("memory");
  return check_device(d);
}

API int cuDeviceGetAttribute(int *v, int which, int d) {
  LOCKED;
  switch (which) {
  case 16: *v = 4; break; // multiprocessors: few, as everything here is small
  case 75: *v = (int)setting("major"); break;
  case 76: *v = (int)setting("minor"); break;
  case 97: *v = 227 << 10; break; // shared memory of a block, at most
  default: return INVALID_VALUE;
  }
  return check_device(d);
}

API int cuDevicePrimaryCtxRetain(void **out, int d) {
  LOCKED;
  int r = check_device(d);
  if (r || (r = may_create())) return r;
  contexts[d].references++;
  *out = &contexts[d];
  return OK;
}

API int cuDevicePrimaryCtxRelease_v2(int d) {
  LOCKED;
  context *c = &contexts[d];
  if (!c->references) return INVALID_CONTEXT;
  if (--c->references == 0) c->sticky = 0; // the next one to retain it gets a new context
  return OK;
}

API int cuCtxSetCurrent(void *c) {
  current = c;
  return OK;
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  LOCKED;
  int r = check();
  if (r) return r;
  *total = setting("memory");
  *free_bytes = current->used > *total ? 0 : *total - current->used;
  return OK;
}

static memory *map(memory **list, context *owner, size_t bytes) {
  memory *m = calloc(1, sizeof *m);
  size_t pages = (bytes + 4095) / 4096 * 4096;
  m->mapped = pages + 4096;
  m->base = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m->base == MAP_FAILED) abort();
  memset(m->base, 0xff, pages); // every word a NaN
  mprotect(m->base + pages, 4096, PROT_NONE);
  m->address = ((uint64_t)m->base + pages - bytes) & ~255ull; // as near to the guard page as alignment lets it
  m->bytes = bytes;
  m->owner = owner;
  m->next = *list;
  *list = m;
  return m;
}

static int unmap(memory **list, context *owner, uint64_t address) {
  for (memory **p = list; *p; p = &(*p)->next) {
    memory *m = *p;
    if (m->address != address || m->owner != owner) continue;
    *p = m->next;
    munmap(m->base, m->mapped);
    if (owner) owner->used -= m->bytes;
    free(m);
    return OK;
  }
  return INVALID_VALUE;
}

// Freeing waits for everything, as the real one does.
static void drain(void) {
  for (stream *s = streams; s; s = s->next) run_until(s, NULL, 0);
}

API int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
  LOCKED;
  int r = check();
  if (r || (r = may_create())) return r;
  if (!bytes) return INVALID_VALUE;
  if (current->used + bytes > (uint64_t)setting("memory")) return OUT_OF_MEMORY;
  current->used += bytes;
  *out = map(&device_memory, current, bytes)->address;
  if (hooks.mapped) hooks.mapped(*out, bytes);
  if (device_key() >= 0 && pkey_mprotect(device_memory->base, device_memory->mapped - 4096, PROT_READ | PROT_WRITE, device_key())) abort();
  device_access(0);
  return OK;
}

API int cuMemFree_v2(uint64_t address) {
  LOCKED;
  drain();
  int r = check(), u = unmap(&device_memory, current, address);
  if (!u && hooks.unmapped) hooks.unmapped(address);
  return r ? r : u;
}

API int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  LOCKED;
  int r = check();
  if (r || (r = may_create())) return r;
  if (!bytes || flags) return INVALID_VALUE;
  *out = (void *)map(&pinned_memory, NULL, bytes)->address;
  return OK;
}

API int cuMemFreeHost(void *p) {
  LOCKED;
  drain();
  int r = check(), u = unmap(&pinned_memory, NULL, (uint64_t)p);
  return r ? r : u;
}

API int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *keys, void **values) {
  LOCKED;
  (void)n, (void)keys, (void)values;
  int r = check();
  if (r || (r = may_create())) return r;
  uint64_t module = 0;
  if (!hooks.load) return INVALID_PTX;
  if ((r = hooks.load((char *)image, &module))) return r;
  live_modules++;
  *out = (void *)module;
  return OK;
}

API int cuModuleUnload(void *m) {
  LOCKED;
  hooks.unload((uint64_t)m);
  for (function **p = &functions; *p;) {
    function *f = *p;
    if (f->module == (uint64_t)m) {
      *p = f->next;
      free(f);
    } else {
      p = &f->next;
    }
  }
  live_modules--;
  return check();
}

API int cuModuleGetFunction(void **out, void *m, const char *name) {
  LOCKED;
  int r = check(), params = 0, threads = 1024, shared = 0;
  if (r) return r;
  if ((r = hooks.function((uint64_t)m, (char *)name, &params, &threads, &shared))) return r;
  function *f = calloc(1, sizeof *f);
  f->owner = current;
  f->module = (uint64_t)m;
  f->param_bytes = params;
  f->max_threads = threads;
  f->static_shared = shared;
  f->shared = (48 << 10) - shared;
  snprintf(f->name, sizeof f->name, "%s", name);
  f->next = functions;
  functions = f;
  *out = f;
  return OK;
}

API int cuFuncSetAttribute(void *p, int which, int value) {
  LOCKED;
  int r = check();
  if (r) return r;
  function *f = p;
  if (which != 8 || value < 0 || value + f->static_shared > 227 << 10) return INVALID_VALUE;
  f->shared = value;
  return OK;
}

API int cuGetErrorName(int code, const char **s) {
  *s = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : code == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR";
  return OK;
}

API int cuGetErrorString(int code, const char **s) {
  *s = code == LAUNCH_FAILED ? "unspecified launch failure" : "";
  return OK;
}
