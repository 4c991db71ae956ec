// Our own declarations of the part of the CUDA driver interface that we use:
// nothing of NVIDIA's is needed to build. Handles are opaque, device addresses
// 64 bits, results 0 or a CUresult.
#ifndef EUSN_CUDA_SHIM_H
#define EUSN_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct eusn_driver eusn_driver; // one opened driver library

// eusn_open loads the library at path. It returns 0, EUSN_NO_LIBRARY or
// EUSN_NO_SYMBOL, the last two with a sentence in why.
enum { EUSN_NO_LIBRARY = -1, EUSN_NO_SYMBOL = -2 };
int eusn_open(const char *path, eusn_driver **d, char *why, size_t room);

// Without a context.
int eusn_init(eusn_driver *d, int *version, int *devices);
int eusn_device(eusn_driver *d, int ordinal, int *dev, char *name, char *pci, size_t room, size_t *memory);
int eusn_attribute(eusn_driver *d, int dev, int which, int *value);
const char *eusn_error_name(eusn_driver *d, int code);
const char *eusn_error_text(eusn_driver *d, int code);
int eusn_retain(eusn_driver *d, int dev, void **ctx);
int eusn_release(eusn_driver *d, int dev);

// A context is current per OS thread and goroutines change threads: each of
// these makes ctx current first.
int eusn_memory(eusn_driver *d, void *ctx, size_t *free, size_t *total);
int eusn_load(eusn_driver *d, void *ctx, const void *image, void **module, char *log, size_t room);
int eusn_function(eusn_driver *d, void *ctx, void *module, const char *name, int shared, void **fn);

// Things that a context owns and that must be given back.
enum { EUSN_DEVICE_MEMORY, EUSN_PINNED_MEMORY, EUSN_STREAM, EUSN_EVENT, EUSN_MODULE };
int eusn_create(eusn_driver *d, void *ctx, int kind, size_t bytes, uint64_t *handle);
int eusn_destroy(eusn_driver *d, void *ctx, int kind, uint64_t handle);

// eusn_op is one entry of a stream: a batch is a list of them, handed over in
// one call because a crossing from Go costs as much as a driver call.
enum { EUSN_UP, EUSN_DOWN, EUSN_FILL, EUSN_LAUNCH, EUSN_WAIT, EUSN_RECORD };
typedef struct {
  uint32_t kind;
  uint32_t grid_x, grid_y, grid_z, block, shared; // LAUNCH
  uint32_t value;                                 // FILL: the word; LAUNCH: offset of its parameter in params
  uint64_t handle;                                // LAUNCH: function; WAIT, RECORD: event
  uint64_t device, host;                          // UP, DOWN, FILL: addresses
  uint64_t bytes;                                 // UP, DOWN, FILL
} eusn_op;

// eusn_submit queues n operations on a stream and says in done how many were.
int eusn_submit(eusn_driver *d, void *ctx, uint64_t stream, const eusn_op *ops, size_t n, const void *params, size_t *done);
int eusn_sync_event(eusn_driver *d, void *ctx, uint64_t event);
int eusn_sync_stream(eusn_driver *d, void *ctx, uint64_t stream);

#endif
