/*
 * See relay.h. The relay uses packet sockets, because not every kernel has netem. It passes frames
 * from port to port unchanged, together with the kernel's struct virtio_net_hdr. That header says
 * that a checksum is not computed yet, or that a frame is not cut into segments yet. The kernel
 * does both after the next port.
 *
 * The waiting frames are a heap in the order of their times. A frame that finds the heap full is
 * lost, as in any switch.
 *
 * The relay corrupts a frame by one bit after its Ethernet header. If the kernel has not computed
 * the checksum yet, the relay prevents it from doing so. Then the checksum is wrong, and the
 * receiver drops the segment. A frame of several segments, whose checksums nobody has computed, is
 * lost instead. The checksum of an altered frame is computed afterwards, so the receiver's TCP
 * accepts it. That fault is for agents with TLS, because without TLS they believe what TCP gives
 * them.
 */
#include "relay.h"

#include "agent_process.h"
#include "require.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    FRAME_MAX = 70000,
    QUEUE_FRAMES = 8192,
    TURN_FRAMES = 64,
    MYRIAD = 10000,
    DOUBLE_US_MAX = 1000,
    LATE_US_MIN = 1000,
    LATE_US_MAX = 20000,
    TCP_LENGTH_AT = 12, /* the offset of the header's length in a TCP header */
    HEADERS = sizeof(struct virtio_net_hdr),
    IP_AT = HEADERS + sizeof(struct ether_header),
};

struct frame {
    unsigned char *bytes; /* a virtio_net_hdr, followed by the frame */
    size_t size;
    unsigned to;
    int64_t due_ns;
    uint64_t number; /* orders frames with the same due_ns */
};

struct relay {
    struct relay_plan plan;
    uint64_t random;
    uint64_t numbers;
    int fds[RELAY_PORTS_MAX];
    bool known[RELAY_PORTS_MAX]; /* whether the port's host has sent a frame, and so its address
                                  * is known */
    unsigned char addresses[RELAY_PORTS_MAX][ETH_ALEN];
    /* a heap: a frame is never due before its parent, which is at (index - 1) / 2 */
    struct frame queue[QUEUE_FRAMES];
    unsigned count;
};

static uint64_t draw(struct relay *relay, uint64_t below)
{
    relay->random ^= relay->random << 13; /* xorshift */
    relay->random ^= relay->random >> 7;
    relay->random ^= relay->random << 17;
    return relay->random % below;
}

static bool happens(struct relay *relay, uint16_t chance, _Atomic uint64_t *counter)
{
    bool so = chance != 0 && draw(relay, MYRIAD) < chance;
    if (so && counter) {
        atomic_fetch_add(counter, 1);
    }
    return so;
}

static int open_port(unsigned port)
{
    char name[IFNAMSIZ];
    int on = 1;
    struct packet_mreq all = {.mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    snprintf(name, sizeof(name), "port%u", port);
    address.sll_ifindex = (int)if_nametoindex(name);
    all.mr_ifindex = address.sll_ifindex;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    REQUIRE(fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) == 0 &&
                setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) == 0 &&
                setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0 &&
                bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0,
            "packet socket on %s: %s", name, strerror(errno));
    return fd;
}

/* ---- waiting frames ---- */

static bool is_before(const struct frame *a, const struct frame *b)
{
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->number < b->number);
}

static void push(struct relay *relay, const struct frame *frame)
{
    unsigned at = relay->count++;
    while (at > 0 && is_before(frame, &relay->queue[(at - 1) / 2])) {
        relay->queue[at] = relay->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    relay->queue[at] = *frame;
}

static struct frame pop(struct relay *relay)
{
    struct frame first = relay->queue[0];
    struct frame moved = relay->queue[--relay->count];
    unsigned at = 0;
    for (;;) { /* the loop ends at a leaf */
        unsigned child = 2 * at + 1;
        if (child + 1 < relay->count && is_before(&relay->queue[child + 1], &relay->queue[child])) {
            child++;
        }
        if (child >= relay->count || is_before(&moved, &relay->queue[child])) {
            break;
        }
        relay->queue[at] = relay->queue[child];
        at = child;
    }
    relay->queue[at] = moved;
    return first;
}

static void enqueue(struct relay *relay, const unsigned char *bytes, size_t size, unsigned to,
                    int64_t due_ns)
{
    if (relay->count == QUEUE_FRAMES) {
        return;
    }
    struct frame frame = {.bytes = malloc(size),
                          .size = size,
                          .to = to,
                          .due_ns = due_ns,
                          .number = relay->numbers++};
    REQUIRE(frame.bytes, "no memory");
    memcpy(frame.bytes, bytes, size);
    push(relay, &frame);
}

/* ---- faults of a frame ---- */

/* Returns the offset of the TCP header in a whole frame, or 0 if the frame is not TCP over IPv4. */
static size_t tcp_at(const unsigned char *bytes, size_t size)
{
    struct ether_header header;
    struct iphdr ip;
    memcpy(&header, bytes + HEADERS, sizeof(header));
    if (ntohs(header.ether_type) != ETHERTYPE_IP || size < IP_AT + sizeof(ip)) {
        return 0;
    }
    memcpy(&ip, bytes + IP_AT, sizeof(ip));
    size_t at = IP_AT + ip.ihl * 4U;
    return ip.protocol == IPPROTO_TCP && size >= at + sizeof(struct tcphdr) ? at : 0;
}

/* Flips a bit of the frame. Returns true if the frame is to be lost instead. */
static bool corrupt(struct relay *relay, unsigned char *bytes, size_t size)
{
    struct virtio_net_hdr header;
    memcpy(&header, bytes, sizeof(header));
    if (header.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        return true;
    }
    header.flags = 0;
    memcpy(bytes, &header, sizeof(header));
    bytes[IP_AT + draw(relay, size - IP_AT)] ^= (unsigned char)(1U << draw(relay, 8));
    return false;
}

/* Flips one bit of the TCP segment's data. */
static void alter(struct relay *relay, unsigned char *bytes, size_t size, size_t tcp)
{
    struct virtio_net_hdr header;
    size_t data = tcp + (size_t)(bytes[tcp + TCP_LENGTH_AT] >> 4) * 4;
    memcpy(&header, bytes, sizeof(header));
    if (size > data && (header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0) {
        bytes[data + draw(relay, size - data)] ^= (unsigned char)(1U << draw(relay, 8));
        atomic_fetch_add(&relay->plan.counts->altered, 1);
    }
}

/* Turns a TCP segment into a reset, if its checksum is still to be computed and so will be
 * right. */
static void make_reset(unsigned char *bytes, size_t tcp)
{
    enum { FLAGS = 13, RST = 4 };
    struct virtio_net_hdr header;
    memcpy(&header, bytes, sizeof(header));
    if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE &&
        (header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0) {
        bytes[tcp + FLAGS] |= RST;
    }
}

static void carry(struct relay *relay, unsigned from, unsigned to, const unsigned char *original,
                  size_t size)
{
    static unsigned char bytes[FRAME_MAX];
    const struct relay_link *link = &relay->plan.links[from][to];
    struct relay_counts *counts = relay->plan.counts;
    size_t tcp = tcp_at(original, size);
    int64_t due_us = link->delay_us + (int64_t)draw(relay, link->jitter_us + 1);
    memcpy(bytes, original, size);
    atomic_fetch_add(&counts->frames, 1);
    if (happens(relay, link->lost, &counts->lost) ||
        (tcp != 0 && happens(relay, link->corrupted, &counts->corrupted) &&
         corrupt(relay, bytes, size))) {
        return;
    }
    if (tcp != 0 && happens(relay, link->altered, NULL)) {
        alter(relay, bytes, size, tcp);
    }
    if (tcp != 0 && happens(relay, link->reset, &counts->reset)) {
        make_reset(bytes, tcp);
    }
    if (happens(relay, link->late, &counts->late)) {
        due_us += (int64_t)(LATE_US_MIN + draw(relay, LATE_US_MAX - LATE_US_MIN));
    }
    int64_t now_ns = boottime_now();
    enqueue(relay, bytes, size, to, now_ns + due_us * 1000);
    if (happens(relay, link->doubled, &counts->doubled)) {
        due_us += (int64_t)draw(relay, DOUBLE_US_MAX);
        enqueue(relay, bytes, size, to, now_ns + due_us * 1000);
    }
}

/* Sends the frame to the port of its destination, or to all other ports if the destination is not
 * known. */
static void pass_on(struct relay *relay, unsigned from, const unsigned char *bytes, size_t size)
{
    struct ether_header header;
    unsigned to = RELAY_PORTS_MAX;
    memcpy(&header, bytes + HEADERS, sizeof(header));
    memcpy(relay->addresses[from], header.ether_shost, ETH_ALEN);
    relay->known[from] = true;
    for (unsigned port = 0; port < relay->plan.ports; port++) {
        if (relay->known[port] &&
            memcmp(relay->addresses[port], header.ether_dhost, ETH_ALEN) == 0) {
            to = port;
        }
    }
    for (unsigned port = 0; port < relay->plan.ports; port++) {
        if (port != from && (to == RELAY_PORTS_MAX || to == port)) {
            carry(relay, from, port, bytes, size);
        }
    }
}

static void take_in(struct relay *relay, unsigned port)
{
    static unsigned char bytes[FRAME_MAX];
    for (unsigned turn = 0; turn < TURN_FRAMES; turn++) {
        ssize_t size = recv(relay->fds[port], bytes, sizeof(bytes), 0);
        if (size <= (ssize_t)IP_AT) {
            return; /* nothing arrived, or what arrived is no frame */
        }
        pass_on(relay, port, bytes, (size_t)size);
    }
}

static void give_out(struct relay *relay)
{
    int64_t now_ns = boottime_now();
    while (relay->count > 0 && relay->queue[0].due_ns <= now_ns) {
        struct frame frame = pop(relay);
        ssize_t ignored = send(relay->fds[frame.to], frame.bytes, frame.size, 0);
        (void)ignored; /* if the port takes no more, the frame is lost */
        free(frame.bytes);
    }
}

void relay_run(const struct relay_plan *plan)
{
    static struct relay relay;
    struct pollfd waits[RELAY_PORTS_MAX];
    relay.plan = *plan;
    relay.random = plan->seed * 0x9e3779b97f4a7c15 | 1;
    for (unsigned port = 0; port < plan->ports; port++) {
        relay.fds[port] = open_port(port);
        waits[port] = (struct pollfd){.fd = relay.fds[port], .events = POLLIN};
    }
    for (;;) {
        struct timespec rest = {.tv_sec = 1};
        give_out(&relay);
        if (relay.count > 0) {
            int64_t left_ns = relay.queue[0].due_ns - boottime_now();
            left_ns = left_ns > 0 ? left_ns : 0;
            rest = (struct timespec){.tv_sec = left_ns / (1000 * MS),
                                     .tv_nsec = left_ns % (1000 * MS)};
        }
        ppoll(waits, plan->ports, &rest, NULL);
        for (unsigned port = 0; port < plan->ports; port++) {
            if (waits[port].revents != 0) {
                take_in(&relay, port);
            }
        }
    }
}
