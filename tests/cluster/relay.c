/*
 * See relay.h. Every kernel has packet sockets; netem it may not have. Frames go from port to port
 * as they are, together with what the kernel says about checksums it has not computed yet and
 * segments it has not cut yet (struct virtio_net_hdr), which it then does behind the next port.
 *
 * All frames take equally long, so one queue in the order of arrival is enough. A frame that finds
 * it full is lost, as in any switch.
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
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PORTS_MAX = 8, FRAME_MAX = 70000, QUEUE_FRAMES = 8192, TURN_FRAMES = 64 };

struct frame {
    unsigned char *bytes; /* virtio_net_hdr, then the frame */
    size_t size;
    unsigned from;
    int64_t due_ns;
};

struct relay {
    unsigned ports;
    int64_t delay_ns;
    int fds[PORTS_MAX];
    bool known[PORTS_MAX]; /* what is behind the port has sent something */
    unsigned char addresses[PORTS_MAX][ETH_ALEN];
    struct frame queue[QUEUE_FRAMES];
    unsigned first;
    unsigned count;
};

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

static void take_in(struct relay *relay, unsigned port)
{
    static unsigned char bytes[FRAME_MAX];
    for (unsigned turn = 0; turn < TURN_FRAMES; turn++) {
        ssize_t size = recv(relay->fds[port], bytes, sizeof(bytes), 0);
        if (size < (ssize_t)(sizeof(struct virtio_net_hdr) + sizeof(struct ether_header))) {
            return; /* nothing there, or no frame */
        }
        struct ether_header header;
        memcpy(&header, bytes + sizeof(struct virtio_net_hdr), sizeof(header));
        memcpy(relay->addresses[port], header.ether_shost, ETH_ALEN);
        relay->known[port] = true;
        struct frame *frame = &relay->queue[(relay->first + relay->count) % QUEUE_FRAMES];
        if (relay->count < QUEUE_FRAMES) {
            *frame = (struct frame){.bytes = malloc((size_t)size),
                                    .size = (size_t)size,
                                    .from = port,
                                    .due_ns = boottime_now() + relay->delay_ns};
            REQUIRE(frame->bytes, "no memory");
            memcpy(frame->bytes, bytes, (size_t)size);
            relay->count++;
        }
    }
}

/* To the port behind which the address is; if that is not known, to all others. */
static void give_out(struct relay *relay, const struct frame *frame)
{
    struct ether_header header;
    unsigned to = PORTS_MAX;
    memcpy(&header, frame->bytes + sizeof(struct virtio_net_hdr), sizeof(header));
    for (unsigned port = 0; port < relay->ports; port++) {
        if (relay->known[port] &&
            memcmp(relay->addresses[port], header.ether_dhost, ETH_ALEN) == 0) {
            to = port;
        }
    }
    for (unsigned port = 0; port < relay->ports; port++) {
        if (port != frame->from && (to == PORTS_MAX || to == port)) {
            ssize_t ignored = send(relay->fds[port], frame->bytes, frame->size, 0);
            (void)ignored; /* a port that takes no more loses it */
        }
    }
}

void relay_run(unsigned ports, unsigned delay_ms)
{
    static struct relay relay;
    struct pollfd waits[PORTS_MAX];
    relay.ports = ports;
    relay.delay_ns = delay_ms * MS;
    for (unsigned port = 0; port < ports; port++) {
        relay.fds[port] = open_port(port);
        waits[port] = (struct pollfd){.fd = relay.fds[port], .events = POLLIN};
    }
    for (;;) { /* until it is killed */
        int64_t now_ns = boottime_now();
        while (relay.count > 0 && relay.queue[relay.first].due_ns <= now_ns) {
            give_out(&relay, &relay.queue[relay.first]);
            free(relay.queue[relay.first].bytes);
            relay.first = (relay.first + 1) % QUEUE_FRAMES;
            relay.count--;
        }
        int timeout_ms = -1;
        if (relay.count > 0) {
            timeout_ms = (int)((relay.queue[relay.first].due_ns - now_ns) / MS) + 1;
        }
        poll(waits, ports, timeout_ms);
        for (unsigned port = 0; port < ports; port++) {
            if (waits[port].revents != 0) {
                take_in(&relay, port);
            }
        }
    }
}
