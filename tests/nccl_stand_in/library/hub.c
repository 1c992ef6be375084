/* The network: one hub for each communicator, which every rank has one connection to.
 *
 * A rank has one request at the hub at most, and reads as long as it has one. So the hub may
 * write without looking whether anybody reads, and no two of them can wait for each other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

enum { MOST_RANKS = 64 };

struct member {
  int fd; /* -1: not there yet, or gone */
  int is_asking;
  struct request request;
  char *payload;
  unsigned char is_done[1024]; /* items of an EXCHANGE */
  uint64_t left;
};

struct hub {
  int listener;
  uint32_t size, here;
  int has_seen_any;
  struct member members[MOST_RANKS];
};

static socklen_t address_of(const char *name, struct sockaddr_un *address) {
  /* Of the abstract kind, which leaves no file behind. */
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  size_t length = strlen(name);
  memcpy(address->sun_path + 1, name, length);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int send_all(int fd, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t more = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return 0;
    done += (size_t)more;
  }
  return 1;
}

int receive_all(int fd, void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t more = recv(fd, (char *)data + done, bytes - done, 0);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return 0;
    done += (size_t)more;
  }
  return 1;
}

static void drop(struct member *member) {
  if (member->fd >= 0) close(member->fd);
  free(member->payload);
  memset(member, 0, sizeof *member);
  member->fd = -1;
}

static void give(struct member *member, uint64_t item, const void *data, uint64_t bytes) {
  struct reply reply = {item, bytes};
  /* A member that is gone is found by the next poll. */
  if (send_all(member->fd, &reply, sizeof reply) && bytes) send_all(member->fd, data, bytes);
}

static void finish(struct member *member) {
  free(member->payload);
  member->payload = NULL;
  member->is_asking = 0;
}

static void accept_member(struct hub *hub) {
  int fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC);
  struct hello hello;
  if (fd < 0) return;
  if (!receive_all(fd, &hello, sizeof hello)) {
    close(fd);
    return;
  }
  if (hello.magic != HELLO || hello.size > MOST_RANKS || hello.rank >= hello.size ||
      (hub->size && hello.size != hub->size) || hub->members[hello.rank].fd >= 0) {
    misuse("rank %u of %u came to a communicator of %u", hello.rank, hello.size, hub->size);
    close(fd);
    return;
  }
  hub->has_seen_any = 1;
  hub->size = hello.size;
  hub->members[hello.rank].fd = fd;
  if (++hub->here < hub->size) return;
  uint32_t welcome = HELLO;
  for (uint32_t rank = 0; rank < hub->size; rank++)
    if (hub->members[rank].fd >= 0) send_all(hub->members[rank].fd, &welcome, sizeof welcome);
}

static int is_the_same(const struct request *a, const struct request *b) {
  int has_payload = a->kind != BROADCAST;
  return a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root &&
         a->count == b->count && (!has_payload || a->bytes == b->bytes);
}

static void finish_collective(struct hub *hub) {
  struct member *all = hub->members;
  for (uint32_t rank = 0; rank < hub->size; rank++)
    if (!all[rank].is_asking || all[rank].request.kind == EXCHANGE) return;
  struct request told = all[0].request;
  for (uint32_t rank = 1; rank < hub->size; rank++)
    if (!is_the_same(&told, &all[rank].request)) {
      misuse("rank 0 calls kind %u (%lu of type %u), rank %u kind %u (%lu of type %u)", told.kind,
             (unsigned long)told.count, told.type, rank, all[rank].request.kind,
             (unsigned long)all[rank].request.count, all[rank].request.type);
      return; /* as kernels that do not fit together: they never end */
    }
  uint64_t bytes = told.bytes, share = told.count * size_of_type(told.type);
  char *whole = NULL;
  if (told.kind == BROADCAST) {
    whole = all[told.root].payload;
  } else if (told.kind == ALL_GATHER) {
    whole = malloc(bytes * hub->size + 1);
    for (uint32_t rank = 0; rank < hub->size; rank++)
      memcpy(whole + rank * bytes, all[rank].payload, bytes);
  } else {
    uint64_t count = bytes / size_of_type(told.type);
    whole = malloc(bytes + 1);
    memcpy(whole, all[0].payload, bytes);
    for (uint32_t rank = 1; rank < hub->size; rank++)
      reduce_into(whole, all[rank].payload, count, told.type, told.op);
    if (told.op == AVG) divide(whole, count, told.type, (int)hub->size);
  }
  for (uint32_t rank = 0; rank < hub->size; rank++) {
    uint64_t given = told.kind == ALL_GATHER                          ? bytes * hub->size
                     : told.kind == REDUCE && rank != told.root ? 0
                                                                      : share;
    give(&all[rank], 0, whole + (told.kind == REDUCE_SCATTER ? rank * share : 0), given);
  }
  if (told.kind != BROADCAST) free(whole);
  for (uint32_t rank = 0; rank < hub->size; rank++) finish(&all[rank]);
}

/* Find the first message of `member` to or from `peer` that still waits. */
static struct item *waiting(struct member *member, uint32_t is_send, uint32_t peer, uint64_t *at) {
  struct item *items = (struct item *)member->payload;
  if (!member->is_asking || member->request.kind != EXCHANGE) return NULL;
  for (*at = 0; *at < member->request.count; ++*at)
    if (!member->is_done[*at] && items[*at].is_send == is_send && items[*at].peer == peer)
      return &items[*at];
  return NULL;
}

static void note_done(struct member *member, uint64_t item) {
  member->is_done[item] = 1;
  if (!--member->left) finish(member);
}

static int deliver_one(struct hub *hub, uint32_t from, uint32_t to) {
  struct member *sender = &hub->members[from], *receiver = &hub->members[to];
  uint64_t at, target;
  struct item *sent = waiting(sender, 1, to, &at), *wanted = waiting(receiver, 0, from, &target);
  if (!sent || !wanted) return 0;
  if (sent->bytes != wanted->bytes) {
    misuse("rank %u sends %lu bytes, and rank %u receives %lu", from, (unsigned long)sent->bytes,
           to, (unsigned long)wanted->bytes);
    return 0;
  }
  const char *data = sender->payload + sender->request.count * sizeof(struct item);
  for (uint64_t i = 0; i < at; i++) {
    struct item *before = &((struct item *)sender->payload)[i];
    if (before->is_send) data += before->bytes;
  }
  give(receiver, target, data, sent->bytes);
  give(sender, at, NULL, 0);
  note_done(receiver, target);
  note_done(sender, at);
  return 1;
}

static int take_request(struct member *member) {
  if (!receive_all(member->fd, &member->request, sizeof member->request)) return 0;
  free(member->payload);
  member->payload = malloc(member->request.bytes + 1);
  if (!receive_all(member->fd, member->payload, member->request.bytes)) return 0;
  member->is_asking = 1;
  member->left = member->request.count;
  memset(member->is_done, 0, sizeof member->is_done);
  return 1;
}

static void *run_hub(void *argument) {
  struct hub *hub = argument;
  for (;;) {
    struct pollfd polled[MOST_RANKS + 1] = {{hub->listener, POLLIN, 0}};
    uint32_t left = 0;
    for (uint32_t rank = 0; rank < MOST_RANKS; rank++) {
      polled[rank + 1] = (struct pollfd){hub->members[rank].fd, POLLIN, 0};
      left += hub->members[rank].fd >= 0;
    }
    if (hub->has_seen_any && !left) break;
    poll(polled, MOST_RANKS + 1, -1);
    if (polled[0].revents) accept_member(hub);
    for (uint32_t rank = 0; rank < hub->size; rank++)
      if (polled[rank + 1].revents && !take_request(&hub->members[rank])) {
        drop(&hub->members[rank]);
        /* As over a network; within a host NCCL does not notice that a peer is gone. */
        if (getenv("NCCL_STAND_IN_REMOTE_ERROR"))
          for (uint32_t other = 0; other < hub->size; other++) drop(&hub->members[other]);
        break;
      }
    finish_collective(hub);
    for (uint32_t from = 0; from < hub->size; from++)
      for (uint32_t to = 0; to < hub->size; to++)
        while (deliver_one(hub, from, to)) continue;
  }
  close(hub->listener);
  free(hub);
  return NULL;
}

int start_hub(char *name, size_t room) {
  static atomic_int number;
  struct hub *hub = calloc(1, sizeof *hub);
  struct sockaddr_un address;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(name, room, "nccl-stand-in-%d-%d-%ld", getpid(), number++, now.tv_nsec);
  for (int rank = 0; rank < MOST_RANKS; rank++) hub->members[rank].fd = -1;
  hub->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = address_of(name, &address);
  if (bind(hub->listener, (struct sockaddr *)&address, length) ||
      listen(hub->listener, MOST_RANKS))
    return 0;
  start_thread(run_hub, hub);
  return 1;
}

int connect_to_hub(const char *name) {
  struct sockaddr_un address;
  socklen_t length = address_of(name, &address);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, length)) {
    close(fd);
    return -1;
  }
  return fd;
}
