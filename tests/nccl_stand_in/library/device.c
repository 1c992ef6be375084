/* A device: streams that are threads, events, and a context that calls of the driver lock.
 *
 * The names are those of CUDA's runtime and driver, as far as they are called by CuPy or ctypes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

enum { OK, INVALID_VALUE = 1, INVALID_HANDLE = 400, NOT_READY = 600 };

struct work {
  void (*run)(void *);
  void *argument;
  struct work *next;
};

struct stream {
  pthread_mutex_t lock;
  pthread_cond_t news;
  struct work *first, *last;
  int is_busy, is_ended;
  struct stream *next;
};

/* Events stay when they are destroyed, so that their use is found. */
struct event {
  uint64_t recorded, happened;
  int64_t at_ns;
  int is_alive;
};

static pthread_mutex_t context = PTHREAD_MUTEX_INITIALIZER;
/* Held by calls that wait for the device, and taken by all others: so the real driver behaves. */
static pthread_mutex_t events = PTHREAD_MUTEX_INITIALIZER, making = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams, *usual;

void misuse(const char *format, ...) {
  char line[512];
  int used = snprintf(line, sizeof line, "%d: ", getpid());
  va_list arguments;
  va_start(arguments, format);
  used += vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
  va_end(arguments);
  line[used++] = '\n';
  const char *path = getenv("NCCL_STAND_IN_LOG");
  int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : dup(2);
  if (fd < 0 || write(fd, line, (size_t)used) < 0) abort();
  close(fd);
}

void delay(const char *variable) {
  const char *told = getenv(variable);
  if (told) usleep((useconds_t)(atof(told) * 1e6));
}

/* Signals are for the threads of Python. */
void start_thread(void *(*run)(void *), void *argument) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  if (pthread_create(&thread, NULL, run, argument)) abort();
  pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* --- streams ---------------------------------------------------------------------------------*/

static void *run_stream(void *argument) {
  struct stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->first && !stream->is_ended) pthread_cond_wait(&stream->news, &stream->lock);
    if (!stream->first) break;
    struct work *work = stream->first;
    stream->first = work->next;
    stream->is_busy = 1;
    pthread_mutex_unlock(&stream->lock);
    work->run(work->argument);
    free(work);
    pthread_mutex_lock(&stream->lock);
    stream->is_busy = 0;
    pthread_cond_broadcast(&stream->news);
  }
  pthread_mutex_unlock(&stream->lock);
  pthread_mutex_lock(&making);
  for (struct stream **each = &streams; *each; each = &(*each)->next)
    if (*each == stream) {
      *each = stream->next;
      break;
    }
  pthread_mutex_unlock(&making);
  free(stream);
  return NULL;
}

static struct stream *make_stream(void) {
  struct stream *stream = calloc(1, sizeof *stream);
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->news, NULL);
  stream->next = streams;
  streams = stream;
  start_thread(run_stream, stream);
  return stream;
}

static struct stream *find_stream(void *pointer) {
  if ((uintptr_t)pointer > 2) return pointer;
  pthread_mutex_lock(&making);
  if (!usual) usual = make_stream();
  pthread_mutex_unlock(&making);
  return usual;
}

void put_on_stream(void *pointer, void (*run)(void *), void *argument) {
  struct stream *stream = find_stream(pointer);
  struct work *work = malloc(sizeof *work);
  *work = (struct work){run, argument, NULL};
  pthread_mutex_lock(&stream->lock);
  if (stream->first)
    stream->last->next = work;
  else
    stream->first = work;
  stream->last = work;
  pthread_cond_broadcast(&stream->news);
  pthread_mutex_unlock(&stream->lock);
}

static void wait_for_stream(struct stream *stream) {
  pthread_mutex_lock(&stream->lock);
  while (stream->first || stream->is_busy) pthread_cond_wait(&stream->news, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
}

int cudaStreamCreateWithFlags(void **stream, unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&making);
  *stream = make_stream();
  pthread_mutex_unlock(&making);
  return OK;
}

/* Ends when all that is queued there has ended. */
int cudaStreamDestroy(struct stream *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->is_ended = 1;
  pthread_cond_broadcast(&stream->news);
  pthread_mutex_unlock(&stream->lock);
  return OK;
}

int cudaStreamSynchronize(void *stream) {
  wait_for_stream(find_stream(stream));
  return OK;
}

/* As the real one: it waits for whatever runs on the device, and keeps the driver meanwhile. */
int cudaFree(void *memory) {
  (void)memory;
  pthread_mutex_lock(&context);
  for (struct stream *stream = streams; stream; stream = stream->next) wait_for_stream(stream);
  pthread_mutex_unlock(&context);
  return OK;
}

struct copy {
  void *target;
  const void *source;
  size_t bytes;
};

static void run_copy(void *argument) {
  struct copy *copy = argument;
  memcpy(copy->target, copy->source, copy->bytes);
  free(copy);
}

int cudaMemcpyAsync(void *target, const void *source, size_t bytes, int kind, void *stream) {
  struct copy *copy = malloc(sizeof *copy);
  if (kind != 3) misuse("a copy of kind %d", kind);
  *copy = (struct copy){target, source, bytes};
  put_on_stream(stream, run_copy, copy);
  return OK;
}

/* Memory of a pool: what is freed is garbage as soon as the stream gets there. */
void *stand_in_alloc(size_t bytes) {
  uint64_t *memory = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
  memset(memory, GARBAGE, bytes + 64);
  memory[0] = bytes;
  return memory + 8;
}

static void run_free(void *memory) {
  uint64_t *whole = (uint64_t *)memory - 8;
  memset(memory, GARBAGE, whole[0]);
  free(whole);
}

void stand_in_free(void *memory, void *stream) { put_on_stream(stream, run_free, memory); }

/* --- events ----------------------------------------------------------------------------------*/

struct mark {
  struct event *event;
  uint64_t number;
};

static void run_mark(void *argument) {
  struct mark *mark = argument;
  pthread_mutex_lock(&events);
  mark->event->happened = mark->number;
  mark->event->at_ns = now_ns();
  pthread_mutex_unlock(&events);
  free(mark);
}

static int use(struct event *event) {
  /* Waits where the driver is kept by a call that waits for the device. */
  pthread_mutex_lock(&context);
  pthread_mutex_unlock(&context);
  if (event->is_alive) return 1;
  misuse("an event is used after its end");
  return 0;
}

int cudaEventCreateWithFlags(void **made, unsigned flags) {
  struct event *event = calloc(1, sizeof *event);
  (void)flags;
  event->is_alive = 1;
  event->at_ns = now_ns();
  *made = event;
  return OK;
}

int cudaEventDestroy(struct event *event) {
  if (!use(event)) return INVALID_HANDLE;
  event->is_alive = 0;
  return OK;
}

int cudaEventRecord(struct event *event, void *stream) {
  struct mark *mark = malloc(sizeof *mark);
  if (!use(event)) return INVALID_HANDLE;
  pthread_mutex_lock(&events);
  *mark = (struct mark){event, ++event->recorded};
  pthread_mutex_unlock(&events);
  put_on_stream(stream, run_mark, mark);
  return OK;
}

int cudaEventQuery(struct event *event) {
  if (!use(event)) return INVALID_HANDLE;
  pthread_mutex_lock(&events);
  int is_done = event->happened == event->recorded;
  pthread_mutex_unlock(&events);
  return is_done ? OK : NOT_READY;
}

int cudaEventElapsedTime(float *elapsed_ms, struct event *start, struct event *end) {
  if (cudaEventQuery(start) || cudaEventQuery(end)) return NOT_READY;
  *elapsed_ms = (float)((double)(end->at_ns - start->at_ns) / 1e6);
  return OK;
}

int cudaSetDevice(int device) {
  pthread_mutex_lock(&context);
  pthread_mutex_unlock(&context);
  return device == 0 ? OK : INVALID_VALUE;
}

/* --- the driver, as who calls it by ctypes finds it ------------------------------------------*/

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : OK; }

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? OK : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **made, int device) {
  *made = &context;
  return device == 0 ? OK : INVALID_VALUE;
}

int cuCtxSetCurrent(void *given) { return given == &context ? OK : INVALID_VALUE; }
int cuEventQuery(struct event *event) { return cudaEventQuery(event); }
int cuEventDestroy_v2(struct event *event) { return cudaEventDestroy(event); }

int cuEventElapsedTime(float *elapsed_ms, struct event *start, struct event *end) {
  return cudaEventElapsedTime(elapsed_ms, start, end);
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  static _Thread_local int mine;
  int before = mine;
  mine = *mode;
  *mode = before;
  return OK;
}
