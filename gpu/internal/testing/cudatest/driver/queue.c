// Lazy streams, events and what runs in them.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

stream *streams;
long live_streams, live_events, launches, submitted, waits;

int enqueue(stream *s, operation *o) {
  submitted++;
  o->next = NULL;
  *s->last = o;
  s->last = &o->next;
  return OK;
}

static int launch(operation *o) {
  launches++;
  if (setting("fail_launch") == launches) return (int)setting("fail_code");
  if (setting("skip_launches")) return OK;
  if (!hooks.launch) return NOT_FOUND;
  return hooks.launch(o->fn->module, o->fn->name, o->grid, o->block, o->shared, o->params, o->fn->param_bytes);
}

static void written(operation *o) {
  if (hooks.written) hooks.written(o->device, o->bytes);
}

static int run(stream *s, operation *o) {
  switch (o->kind) {
  case COPY_UP:
    memcpy((void *)o->device, o->host, o->bytes);
    written(o);
    return OK;
  case COPY_DOWN: memcpy(o->host, (void *)o->device, o->bytes); return OK;
  case FILL:
    for (size_t i = 0; i < o->bytes / 4; i++) ((uint32_t *)o->device)[i] = o->value;
    written(o);
    return OK;
  case LAUNCH: return launch(o);
  case WAIT: return o->ev->in ? run_until(o->ev->in, o->ev, o->count) : OK;
  case RECORD: o->ev->reached = o->count; return OK;
  }
  return INVALID_VALUE;
}

static int run_queue(stream *s, event *e, uint64_t count) {
  while (s->first && !(e && e->reached >= count)) {
    context *c = s->owner;
    if (c->sticky) return c->sticky;
    operation *o = s->first;
    s->first = o->next;
    if (!s->first) s->last = &s->first;
    int r = run(s, o);
    free(o);
    if (r) return c->sticky = r;
  }
  return s->owner->sticky;
}

int run_until(stream *s, event *e, uint64_t count) {
  static int depth; // of waits for other streams
  if (!s->first || e && e->reached >= count) return s->owner->sticky;
  if (!depth++) device_access(1);
  int r = run_queue(s, e, count);
  if (!--depth) device_access(0);
  return r;
}

static operation *operation_of(int kind, size_t extra) {
  operation *o = calloc(1, sizeof *o + extra);
  o->kind = kind;
  return o;
}

// waiting is what the host waits for: other streams may have run before.
static void others_first(stream *s) {
  if (setting("order") != 1) return;
  for (stream *t = streams; t; t = t->next)
    if (t != s) run_until(t, NULL, 0);
}

static int check_stream(stream *s) {
  int r = check();
  if (r) return r;
  return s && s->owner == current ? OK : INVALID_HANDLE;
}

API int cuStreamCreate(void **out, unsigned flags) {
  (void)flags;
  LOCKED;
  int r = check();
  if (r || (r = may_create())) return r;
  stream *s = calloc(1, sizeof *s);
  s->owner = current;
  s->last = &s->first;
  s->next = streams;
  streams = s;
  live_streams++;
  *out = s;
  return OK;
}

API int cuStreamDestroy_v2(void *p) {
  LOCKED;
  stream *s = p;
  int r = check();
  if (r == OK) r = run_until(s, NULL, 0);
  for (stream **t = &streams; *t; t = &(*t)->next)
    if (*t == s) {
      *t = s->next;
      break;
    }
  while (s->first) {
    operation *o = s->first;
    s->first = o->next;
    free(o);
  }
  free(s);
  live_streams--;
  return r;
}

API int cuStreamSynchronize(void *s) {
  LOCKED;
  int r = check_stream(s);
  if (r) return r;
  waits++;
  others_first(s);
  return run_until(s, NULL, 0);
}

API int cuStreamWaitEvent(void *s, void *p, unsigned flags) {
  (void)flags;
  LOCKED;
  event *e = p;
  int r = check_stream(s);
  if (r) return r;
  operation *o = operation_of(WAIT, 0);
  o->ev = e;
  o->count = e->recorded; // the latest record there is now; none: no wait
  return enqueue(s, o);
}

API int cuEventCreate(void **out, unsigned flags) {
  (void)flags;
  LOCKED;
  int r = check();
  if (r || (r = may_create())) return r;
  event *e = calloc(1, sizeof *e);
  e->owner = current;
  live_events++;
  *out = e;
  return OK;
}

API int cuEventDestroy_v2(void *e) {
  LOCKED;
  free(e);
  live_events--;
  return check();
}

API int cuEventRecord(void *p, void *s) {
  LOCKED;
  int r = check_stream(s);
  if (r) return r;
  event *e = p;
  operation *o = operation_of(RECORD, 0);
  o->ev = e;
  o->count = ++e->recorded;
  e->in = s;
  return enqueue(s, o);
}

API int cuEventSynchronize(void *p) {
  LOCKED;
  int r = check();
  if (r) return r;
  event *e = p;
  if (!e->in) return OK;
  waits++;
  others_first(e->in);
  return run_until(e->in, e, e->recorded);
}

static int copy(int kind, uint64_t device, const void *host, size_t bytes, void *s) {
  int r = check_stream(s);
  if (r) return r;
  if (!bytes || !inside(device_memory, current, device, bytes)) return INVALID_VALUE;
  if (!inside(pinned_memory, NULL, (uint64_t)host, bytes)) {
    fprintf(stderr, "fake driver: asynchronous copy of memory that is not pinned\n");
    return INVALID_VALUE;
  }
  operation *o = operation_of(kind, 0);
  o->device = device;
  o->host = (void *)host;
  o->bytes = bytes;
  return enqueue(s, o);
}

API int cuMemcpyHtoDAsync_v2(uint64_t device, const void *host, size_t bytes, void *s) {
  LOCKED;
  return copy(COPY_UP, device, host, bytes, s);
}

API int cuMemcpyDtoHAsync_v2(void *host, uint64_t device, size_t bytes, void *s) {
  LOCKED;
  return copy(COPY_DOWN, device, host, bytes, s);
}

API int cuMemsetD32Async(uint64_t device, unsigned value, size_t words, void *s) {
  LOCKED;
  int r = check_stream(s);
  if (r) return r;
  if (device % 4 || !words || !inside(device_memory, current, device, 4 * words)) return INVALID_VALUE;
  operation *o = operation_of(FILL, 0);
  o->device = device;
  o->value = value;
  o->bytes = 4 * words;
  return enqueue(s, o);
}

API int cuLaunchKernel(void *p, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra) {
  LOCKED;
  int r = check_stream(s);
  if (r) return r;
  function *f = p;
  if (!f || f->owner != current) return INVALID_HANDLE;
  unsigned threads = bx * by * bz;
  if (!gx || !gy || !gz || !threads || extra || gx > 0x7fffffff || gy > 65535 || gz > 65535) return INVALID_VALUE;
  if (threads > (unsigned)f->max_threads || threads > 1024 || shared > (unsigned)f->shared) return INVALID_VALUE;
  operation *o = operation_of(LAUNCH, f->param_bytes);
  o->fn = f;
  o->shared = shared;
  memcpy(o->grid, (uint32_t[]){gx, gy, gz}, sizeof o->grid);
  memcpy(o->block, (uint32_t[]){bx, by, bz}, sizeof o->block);
  if (f->param_bytes) memcpy(o->params, params[0], f->param_bytes);
  return enqueue(s, o);
}
