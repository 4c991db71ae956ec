// A driver for tests: the entry points of libcuda.so.1 that the engine uses,
// stricter than a real one and without a GPU.
//
//  - Streams are lazy: operations run only when the host waits for them, so a
//    host that reads a result or reuses a buffer too early sees old bytes.
//    With order=1 other streams run first when one is waited for.
//  - Asynchronous copies must name pinned memory.
//  - Device memory is filled with NaN, ends at a guard page, and cannot be
//    touched by the host.
//  - A context must be current on the calling thread, and what is passed must
//    belong to it.
//  - Errors of kernels are sticky: the context answers them to everything.
//  - Allocations can be made to fail one by one, and leaks are counted.
//
// Kernels are run by hooks, which the test program sets.
#ifndef EUSN_FAKE_H
#define EUSN_FAKE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, LAUNCH_FAILED = 719,
};

// Hooks return a CUresult. A module is what load makes of a PTX text.
typedef struct {
  int (*load)(char *text, uint64_t *module);
  void (*unload)(uint64_t module);
  int (*function)(uint64_t module, char *name, int *param_bytes, int *max_threads, int *static_shared);
  int (*launch)(uint64_t module, char *name, uint32_t *grid, uint32_t *block, uint32_t shared, void *params, uint32_t param_bytes);
  // Device memory that was allocated, freed, or written by the host.
  void (*mapped)(uint64_t address, uint64_t bytes);
  void (*unmapped)(uint64_t address);
  void (*written)(uint64_t address, uint64_t bytes);
} fake_hooks;

enum { MAX_DEVICES = 8 };

typedef struct {
  int ordinal, references, sticky;
  uint64_t used;
} context;

typedef struct memory {
  struct memory *next;
  context *owner; // NULL for pinned memory, which all contexts share
  char *base;     // of the mapping; the guard page is its last
  size_t mapped;
  uint64_t address, bytes;
} memory;

typedef struct event {
  context *owner;
  struct stream *in;          // where it was recorded last
  uint64_t recorded, reached; // how often
} event;

typedef struct function {
  struct function *next;
  context *owner;
  uint64_t module;
  int param_bytes, max_threads, static_shared, shared;
  char name[128];
} function;

typedef struct operation {
  struct operation *next;
  enum { COPY_UP, COPY_DOWN, FILL, LAUNCH, WAIT, RECORD } kind;
  uint64_t device;
  void *host;
  size_t bytes;
  uint32_t value, grid[3], block[3], shared;
  function *fn;
  event *ev;
  uint64_t count; // of the event's records: the one to reach or waited for
  char params[]; // of a launch
} operation;

typedef struct stream {
  struct stream *next;
  context *owner;
  operation *first, **last;
} stream;

extern pthread_mutex_t fake_lock;
extern fake_hooks hooks;
extern context contexts[MAX_DEVICES];
extern memory *device_memory, *pinned_memory;
extern stream *streams;
extern long live_streams, live_events, live_modules, launches, created, submitted, waits;
extern _Thread_local context *current;

long setting(const char *key);
int check(void);         // is a context current, initialized and healthy?
int may_create(void);    // counts allocations, fails the one that oom_at names
void device_access(int); // lets this thread touch device memory, or not
memory *inside(memory *list, context *owner, uint64_t address, size_t bytes);

int enqueue(stream *s, operation *o);
int run_until(stream *s, event *e, uint64_t count); // e NULL: to the end

#define LOCKED pthread_mutex_lock(&fake_lock); __attribute__((cleanup(unlock_it))) int held_ = 1; (void)held_;
static inline void unlock_it(int *p) { (void)p; pthread_mutex_unlock(&fake_lock); }

#endif
