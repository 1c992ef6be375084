/* The calls of nccl.h, as strict as NCCL asks its callers to be. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stand_in.h"

enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE,
       REMOTE_ERROR, IN_PROGRESS, RESULTS = 10 };
enum { VERSION = 23203, MAGIC = 0xcafebeef, UNDEFINED = INT_MIN };
enum { MOST_IN_GROUP = 256 };

typedef struct { char internal[128]; } unique_id;

/* ncclConfig_t up to where it is looked at; later versions put more behind it. */
struct config {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
};

/* One rank's communicator. It stays when it has ended, so that its use is found. */
struct comm {
  unsigned magic;
  pthread_mutex_t lock;
  pthread_cond_t news;
  atomic_int inside; /* threads that are in a call */
  int size, rank, fd, is_blocking;
  int is_forming, is_aborted, is_finalized, is_ended;
  int error;             /* what went wrong in the background */
  int polls;             /* left, until what was called is queued */
  struct batch *first, *last; /* called, and not queued yet */
  uint64_t tickets, serving;  /* batches go in the order of their calls, on whatever streams */
  int pending, is_running;
  char hub[128], words[160];
};

struct op {
  struct comm *comm;
  void *stream;
  struct request request;
  struct item item; /* of a message */
  const char *source;
  char *target;
  uint64_t out_bytes;
};

/* What one call or one group queues for one communicator on one stream. */
struct batch {
  struct comm *comm;
  void *stream;
  uint64_t ticket;
  struct batch *next;
  int count;
  struct op ops[];
};

static _Thread_local struct { int depth, count; struct op ops[MOST_IN_GROUP]; } group;

/* So often a caller hears that its call is in progress, and nothing is queued before. */
static int polls_of_a_call(void) {
  const char *told = getenv("NCCL_STAND_IN_POLLS");
  return told ? atoi(told) : 2;
}

static int refuse(struct comm *comm, const char *text) {
  if (comm) snprintf(comm->words, sizeof comm->words, "%s", text);
  misuse("%s", text);
  return INVALID_USAGE;
}

/* Begin a call; every one but an abort must be alone. */
static int enter(struct comm *comm, const char *name) {
  if (!comm || comm->magic != MAGIC) return refuse(NULL, "no communicator");
  if (comm->is_ended) {
    misuse("%s after the end of the communicator", name);
    return INVALID_USAGE;
  }
  if (atomic_fetch_add(&comm->inside, 1)) {
    misuse("%s while another thread is in a call", name);
    atomic_fetch_sub(&comm->inside, 1);
    return INVALID_USAGE;
  }
  return SUCCESS;
}

static int leave(struct comm *comm, int result) {
  atomic_fetch_sub(&comm->inside, 1);
  return result;
}

/* --- on the stream ---------------------------------------------------------------------------*/

static int carry_out_messages(struct batch *batch, int first) {
  struct op *ops = batch->ops;
  int count = batch->count - first, fd = batch->comm->fd;
  struct request request = {.kind = EXCHANGE, .count = (uint64_t)count};
  request.bytes = (uint64_t)count * sizeof(struct item);
  for (int i = first; i < batch->count; i++)
    if (ops[i].item.is_send) request.bytes += ops[i].item.bytes;
  if (!send_all(fd, &request, sizeof request)) return 0;
  for (int i = first; i < batch->count; i++)
    if (!send_all(fd, &ops[i].item, sizeof ops[i].item)) return 0;
  for (int i = first; i < batch->count; i++)
    if (ops[i].item.is_send && !send_all(fd, ops[i].source, ops[i].item.bytes)) return 0;
  for (int i = 0; i < count; i++) {
    struct reply reply;
    if (!receive_all(fd, &reply, sizeof reply)) return 0;
    if (!receive_all(fd, ops[first + (int)reply.item].target, reply.bytes)) return 0;
  }
  return 1;
}

static int carry_out(struct op *op) {
  struct reply reply;
  int fd = op->comm->fd;
  if (!send_all(fd, &op->request, sizeof op->request)) return 0;
  if (!send_all(fd, op->source, op->request.bytes)) return 0;
  return receive_all(fd, &reply, sizeof reply) && receive_all(fd, op->target, reply.bytes);
}

static int carry_out_all(struct batch *batch) {
  int i = 0;
  for (; i < batch->count && batch->ops[i].request.kind != EXCHANGE; i++)
    if (!carry_out(&batch->ops[i])) return 0;
  return i == batch->count || carry_out_messages(batch, i);
}

/* A kernel: it ends when its peers have come, or by an abort, which leaves garbage. */
static void run_batch(void *argument) {
  struct batch *batch = argument;
  struct comm *comm = batch->comm;
  pthread_mutex_lock(&comm->lock);
  while (comm->serving != batch->ticket && !comm->is_aborted)
    pthread_cond_wait(&comm->news, &comm->lock);
  if (!comm->is_aborted) {
    comm->is_running = 1;
    pthread_mutex_unlock(&comm->lock);
    int is_ok = carry_out_all(batch);
    pthread_mutex_lock(&comm->lock);
    if (!is_ok) {
      if (!comm->is_aborted && getenv("NCCL_STAND_IN_REMOTE_ERROR")) comm->error = REMOTE_ERROR;
      while (!comm->is_aborted) pthread_cond_wait(&comm->news, &comm->lock);
      for (int i = 0; i < batch->count; i++)
        if (batch->ops[i].target) memset(batch->ops[i].target, GARBAGE, batch->ops[i].out_bytes);
    }
    comm->is_running = 0;
    comm->serving++;
  }
  comm->pending--;
  pthread_cond_broadcast(&comm->news);
  pthread_mutex_unlock(&comm->lock);
  free(batch);
}

/* --- launching -------------------------------------------------------------------------------*/

static void queue_batches(struct comm *comm) {
  while (comm->first) {
    struct batch *batch = comm->first;
    comm->first = batch->next;
    put_on_stream(batch->stream, run_batch, batch);
  }
}

/* Collectives go first and messages together, as the order within a group does not matter. */
static int launch(struct op *ops, int count) {
  struct comm *comm = ops[0].comm;
  struct batch *batch = malloc(sizeof *batch + (size_t)count * sizeof *ops);
  *batch = (struct batch){.comm = comm, .stream = ops[0].stream};
  for (int messages = 0; messages < 2; messages++)
    for (int i = 0; i < count; i++) {
      if (ops[i].comm != comm || ops[i].stream != batch->stream) {
        free(batch);
        return refuse(comm, "a group on two communicators or streams, which is not stood in for");
      }
      if ((ops[i].request.kind == EXCHANGE) == messages) batch->ops[batch->count++] = ops[i];
    }
  int result = enter(comm, "a launch");
  if (result) {
    free(batch);
    return result;
  }
  delay("NCCL_STAND_IN_LAUNCH_S");
  pthread_mutex_lock(&comm->lock);
  batch->ticket = comm->tickets++;
  comm->pending++;
  if (comm->first)
    comm->last->next = batch;
  else
    comm->first = batch;
  comm->last = batch;
  comm->polls = polls_of_a_call();
  if (comm->is_blocking) queue_batches(comm);
  /* As NCCL does for the first message to a peer: it connects before it returns. */
  if (comm->is_blocking && getenv("NCCL_STAND_IN_CONNECTS"))
    while (comm->pending && !comm->is_aborted) pthread_cond_wait(&comm->news, &comm->lock);
  result = !comm->is_blocking ? IN_PROGRESS : comm->is_aborted ? INTERNAL_ERROR : SUCCESS;
  pthread_mutex_unlock(&comm->lock);
  return leave(comm, result);
}

static int take(struct op op, const char *name, int is_message) {
  struct comm *comm = op.comm;
  struct request *told = &op.request;
  int result = enter(comm, name);
  if (result) return result;
  if (comm->is_forming || comm->first)
    result = refuse(comm, "a launch while the last call is in progress");
  else if (comm->is_finalized)
    result = refuse(comm, "a launch on a finalized communicator");
  else if (told->type >= TYPES || told->op >= OPS || told->root >= (uint32_t)comm->size)
    result = refuse(comm, "a type, operation or rank that does not exist");
  else if (told->count && ((!op.source && told->bytes) || (!op.target && op.out_bytes)))
    result = refuse(comm, "no buffer");
  else if (comm->error)
    result = comm->error;
  leave(comm, result);
  if (result) return result;
  if (is_message) {
    op.item.peer = told->root;
    *told = (struct request){.kind = EXCHANGE};
  }
  if (!group.depth) return launch(&op, 1);
  if (group.count == MOST_IN_GROUP) return refuse(comm, "too large a group for the stand-in");
  group.ops[group.count++] = op;
  return SUCCESS;
}

int ncclGroupStart(void) {
  group.depth++;
  return SUCCESS;
}

int ncclGroupEnd(void) {
  if (!group.depth) return refuse(NULL, "the end of a group that was not begun");
  if (--group.depth || !group.count) return SUCCESS;
  int count = group.count;
  group.count = 0;
  return launch(group.ops, count);
}

/* --- what is launched ------------------------------------------------------------------------*/

static size_t width(unsigned type) { return type < TYPES ? size_of_type(type) : 1; }

static int collective(struct op op, const char *name, uint64_t in, uint64_t out) {
  op.request.bytes = in * width(op.request.type);
  op.out_bytes = out * width(op.request.type);
  return take(op, name, 0);
}

#define OP(KIND, ROOT, OPERATION)                                                                 \
  (struct op) {                                                                                   \
    .comm = comm, .stream = stream, .source = source, .target = target,                           \
    .request = {KIND, (uint32_t)type, (uint32_t)(OPERATION), (uint32_t)(ROOT), count, 0}          \
  }

int ncclAllReduce(const void *source, void *target, size_t count, int type, int op,
                  struct comm *comm, void *stream) {
  return collective(OP(ALL_REDUCE, 0, op), "ncclAllReduce", count, count);
}

int ncclReduce(const void *source, void *target, size_t count, int type, int op, int root,
               struct comm *comm, void *stream) {
  int is_root = comm && root == comm->rank;
  return collective(OP(REDUCE, root, op), "ncclReduce", count, is_root ? count : 0);
}

int ncclBroadcast(const void *source, void *target, size_t count, int type, int root,
                  struct comm *comm, void *stream) {
  int is_root = comm && root == comm->rank;
  return collective(OP(BROADCAST, root, 0), "ncclBroadcast", is_root ? count : 0, count);
}

int ncclAllGather(const void *source, void *target, size_t count, int type, struct comm *comm,
                  void *stream) {
  size_t all = comm ? count * (size_t)comm->size : 0;
  return collective(OP(ALL_GATHER, 0, 0), "ncclAllGather", count, all);
}

int ncclReduceScatter(const void *source, void *target, size_t count, int type, int op,
                      struct comm *comm, void *stream) {
  size_t all = comm ? count * (size_t)comm->size : 0;
  return collective(OP(REDUCE_SCATTER, 0, op), "ncclReduceScatter", all, count);
}

int ncclSend(const void *source, size_t count, int type, int peer, struct comm *comm,
             void *stream) {
  char *target = NULL;
  struct op op = OP(EXCHANGE, peer, 0);
  op.request.bytes = count * width((unsigned)type);
  op.item = (struct item){.is_send = 1, .bytes = op.request.bytes};
  return take(op, "ncclSend", 1);
}

int ncclRecv(void *target, size_t count, int type, int peer, struct comm *comm, void *stream) {
  const char *source = NULL;
  struct op op = OP(EXCHANGE, peer, 0);
  op.out_bytes = count * width((unsigned)type);
  op.item = (struct item){.bytes = op.out_bytes};
  return take(op, "ncclRecv", 1);
}

/* --- the life of a communicator --------------------------------------------------------------*/

int ncclGetVersion(int *version) {
  *version = VERSION;
  return SUCCESS;
}

int ncclGetUniqueId(unique_id *id) {
  memset(id, 0, sizeof *id);
  memcpy(id->internal, "STANDIN", 8);
  return start_hub(id->internal + 8, sizeof id->internal - 8) ? SUCCESS : SYSTEM_ERROR;
}

static void *form(void *argument) {
  struct comm *comm = argument;
  struct hello hello = {HELLO, (uint32_t)comm->rank, (uint32_t)comm->size};
  uint32_t welcome = 0;
  delay("NCCL_STAND_IN_INIT_S");
  int fd = connect_to_hub(comm->hub);
  pthread_mutex_lock(&comm->lock);
  comm->fd = fd;
  int is_wanted = !comm->is_aborted;
  pthread_mutex_unlock(&comm->lock);
  int is_ok = is_wanted && fd >= 0 && send_all(fd, &hello, sizeof hello) &&
              receive_all(fd, &welcome, sizeof welcome);
  pthread_mutex_lock(&comm->lock);
  if (!is_ok) comm->error = REMOTE_ERROR;
  comm->is_forming = 0;
  pthread_cond_broadcast(&comm->news);
  pthread_mutex_unlock(&comm->lock);
  return NULL;
}

int ncclCommInitRankConfig(struct comm **made, int size, unique_id id, int rank,
                           const struct config *config) {
  *made = NULL;
  if (memcmp(id.internal, "STANDIN", 8) || size < 1 || rank < 0 || rank >= size)
    return refuse(NULL, "a communicator of an unknown id, size or rank");
  if (config->magic != MAGIC || config->size < sizeof *config || config->size > 4096 ||
      config->version < 21400 || config->version > 29999)
    return refuse(NULL, "a config without NCCL_CONFIG_INITIALIZER");
  if (config->blocking != 0 && config->blocking != 1 && config->blocking != UNDEFINED)
    return refuse(NULL, "a config whose `blocking` is neither 0 nor 1");
  if (config->commName && strlen(config->commName) > 4096) return refuse(NULL, "a wild name");
  const char *asked = getenv("NCCL_COMM_BLOCKING");
  struct comm *comm = calloc(1, sizeof *comm);
  pthread_mutex_init(&comm->lock, NULL);
  pthread_cond_init(&comm->news, NULL);
  snprintf(comm->hub, sizeof comm->hub, "%s", id.internal + 8);
  comm->magic = MAGIC;
  comm->size = size;
  comm->rank = rank;
  comm->fd = -1;
  comm->is_blocking = asked ? atoi(asked) : config->blocking != 0;
  comm->is_forming = 1;
  comm->polls = polls_of_a_call();
  *made = comm;
  start_thread(form, comm);
  if (!comm->is_blocking) return IN_PROGRESS;
  pthread_mutex_lock(&comm->lock);
  while (comm->is_forming) pthread_cond_wait(&comm->news, &comm->lock);
  pthread_mutex_unlock(&comm->lock);
  return comm->error;
}

int ncclCommGetAsyncError(struct comm *comm, int *state) {
  int result = enter(comm, "ncclCommGetAsyncError");
  if (result) return result;
  pthread_mutex_lock(&comm->lock);
  int is_in_progress = comm->is_forming || (comm->is_finalized && comm->pending) ||
                       (comm->polls && comm->polls--);
  if (!is_in_progress) queue_batches(comm);
  *state = comm->error ? comm->error : is_in_progress ? IN_PROGRESS : SUCCESS;
  pthread_mutex_unlock(&comm->lock);
  return leave(comm, SUCCESS);
}

static void let_go(struct comm *comm) {
  while (comm->is_forming || comm->is_running) pthread_cond_wait(&comm->news, &comm->lock);
  if (comm->fd >= 0) close(comm->fd);
  comm->fd = -1;
  for (struct batch *batch = comm->first; batch; batch = comm->first) {
    comm->first = batch->next;
    free(batch);
  }
}

/* From any thread, and blocking; what is on the device ends first. */
int ncclCommAbort(struct comm *comm) {
  if (!comm || comm->magic != MAGIC) return refuse(NULL, "an abort of no communicator");
  pthread_mutex_lock(&comm->lock);
  if (comm->is_ended) {
    pthread_mutex_unlock(&comm->lock);
    return refuse(comm, "an abort after the end of the communicator");
  }
  comm->is_ended = comm->is_aborted = 1;
  if (comm->fd >= 0) shutdown(comm->fd, SHUT_RDWR);
  pthread_cond_broadcast(&comm->news);
  pthread_mutex_unlock(&comm->lock);
  delay("NCCL_STAND_IN_ABORT_S");
  pthread_mutex_lock(&comm->lock);
  let_go(comm);
  pthread_mutex_unlock(&comm->lock);
  return SUCCESS;
}

int ncclCommFinalize(struct comm *comm) {
  int result = enter(comm, "ncclCommFinalize");
  if (result) return result;
  if (comm->is_forming || comm->first || comm->is_finalized)
    return leave(comm, refuse(comm, "an end while the last call is in progress, or a second one"));
  pthread_mutex_lock(&comm->lock);
  comm->is_finalized = 1;
  comm->polls = polls_of_a_call();
  while (comm->is_blocking && comm->pending) pthread_cond_wait(&comm->news, &comm->lock);
  pthread_mutex_unlock(&comm->lock);
  return leave(comm, comm->is_blocking ? SUCCESS : IN_PROGRESS);
}

int ncclCommDestroy(struct comm *comm) {
  int result = enter(comm, "ncclCommDestroy");
  if (result) return result;
  if (comm->is_finalized && !comm->is_blocking && (comm->polls || comm->pending))
    return leave(comm, refuse(comm, "a destroy before the finalize was polled to its success"));
  pthread_mutex_lock(&comm->lock);
  while (comm->pending && !comm->is_aborted) pthread_cond_wait(&comm->news, &comm->lock);
  comm->is_ended = 1;
  let_go(comm);
  pthread_mutex_unlock(&comm->lock);
  return leave(comm, SUCCESS);
}

/* --- asking ----------------------------------------------------------------------------------*/

int ncclCommCount(struct comm *comm, int *count) {
  int result = enter(comm, "ncclCommCount");
  if (result) return result;
  *count = comm->size;
  return leave(comm, SUCCESS);
}

int ncclCommUserRank(struct comm *comm, int *rank) {
  int result = enter(comm, "ncclCommUserRank");
  if (result) return result;
  *rank = comm->rank;
  return leave(comm, SUCCESS);
}

const char *ncclGetErrorString(int result) {
  static const char *texts[RESULTS] = {
      "no error", "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",
      "remote process exited or there was a network error", "NCCL operation in progress",
      "timeout", "unknown result code"};
  return texts[result < 0 || result >= RESULTS ? RESULTS - 1 : result];
}

const char *ncclGetLastError(struct comm *comm) {
  return comm && comm->magic == MAGIC ? comm->words : "";
}
