/* A libnccl on host memory: what its parts have in common.
 *
 * Ranks are processes, connected by Unix sockets to a hub: a thread in the process that made the
 * unique id. Streams are threads. Whatever NCCL or CUDA leave undefined is refused here and
 * written to the file that NCCL_STAND_IN_LOG names, which tests assert to be empty.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stddef.h>
#include <stdint.h>

enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, EXCHANGE };
enum { SUM, PROD, MAX, MIN, AVG, OPS };
enum { TYPES = 12 }; /* ncclInt8 .. ncclFloat8e5m2 */
enum { GARBAGE = 0xAB };

/* What a rank brings to the hub, with `bytes` of payload behind it. */
struct request {
  uint32_t kind, type, op, root;
  uint64_t count, bytes;
};

/* One message of an EXCHANGE, whose payload is `count` of these and then what is sent. */
struct item {
  uint32_t is_send, peer;
  uint64_t bytes;
};

/* What the hub gives back: one for a collective, one for each item of an EXCHANGE. */
struct reply {
  uint64_t item, bytes;
};

struct hello {
  uint32_t magic, rank, size;
};
enum { HELLO = 0x4a44484c };

/* arithmetic.c */
size_t size_of_type(uint32_t type);
void reduce_into(void *total, const void *more, uint64_t count, uint32_t type, uint32_t op);
void divide(void *total, uint64_t count, uint32_t type, int by);

/* hub.c */
int start_hub(char *name, size_t room);
int connect_to_hub(const char *name);
int send_all(int fd, const void *data, size_t bytes);
int receive_all(int fd, void *data, size_t bytes);

/* device.c */
void misuse(const char *format, ...);
void start_thread(void *(*run)(void *), void *argument);
void put_on_stream(void *stream, void (*run)(void *), void *argument);
void delay(const char *variable);

#endif
