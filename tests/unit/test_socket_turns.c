/*
 * The share of a turn of the loop that one user's connections have: SOCKET_TURN_MS, for any number
 * of connections and any requests. Each connection has its turn, even if new connections come
 * meanwhile, and another user's connections do not wait for those of this user. All users together
 * have SOCKET_TURN_ALL_MS. Calls on a user's sockets may cost more than the user's share. Then the
 * user waits, in proportion to that cost, before it is served again.
 */
#include <check.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/clock.h"
#include "io/socket.h"

enum {
    CONNECTIONS = 40,
    PACKETS = SOCKET_PACKETS_PER_TURN,
    COST_MS = 1, /* the least cost of serving one packet */
    MOST = SOCKET_TURN_MS / COST_MS,
    /* a user whose low bits equal root's, so that both are in one list of the table */
    OTHER = 64 * 1024,
    USERS = 20,
    COMING = 2,   /* new connections in each turn */
    STAYING = 10, /* how many turns each new connection stays */
    COMING_TURNS = 500,
    PATIENT = 50, /* packets of a client that was connected before all other clients */
    MOST_OF_ALL = SOCKET_TURN_ALL_MS / COST_MS,
    ROUNDS_MAX = 100000,
    LENT = 12, /* more packets than fit into a small buffer of a socket */
    LENT_SIZE = 1000,
};

static char path[96];
static uv_loop_t loop;
static uv_check_t check;
static struct socket_server *server;
static struct socket_shares own_shares;
static bool serving;
static uint32_t in_turn; /* how many packets of this user were served in the present turn */
static uint32_t most_in_turn;
static uint32_t all;
static uint32_t of_first; /* the value of `all` when each connection had been served once */
static uint32_t begun;
/* packets of this user that were served before the first packet of the other user */
static uint32_t before_other;
static bool other_served;
static bool all_users;      /* if set, the counters in this file include all users */
static uint32_t of_patient; /* packets of the patient client that were served */
static bool answers;        /* the server answers packets, and nobody reads the answers */
static int lent = -1;       /* the answer to a packet is LENT packets; the last one lends the
                             * descriptor */
static bool mute;           /* the first packet is no HELLO */
static uint32_t closed;
static bool dear; /* a hang-up costs as much as a packet, and is counted in in_turn */
static uint32_t refused_in_turn;
static uint32_t most_refused;

static void burn(int64_t cost_ms)
{
    int64_t end_ns = clock_boottime_ns() + cost_ms * INT64_C(1000000);
    while (clock_boottime_ns() < end_ns) {
    }
}

static void on_packet(void *arg, struct connection *connection, const unsigned char *bytes,
                      size_t size, pid_t sender)
{
    struct connection_note *note = connection_note(connection);
    (void)arg;
    (void)size;
    (void)sender;
    if (mute) {
        return;
    }
    connection_greeted(connection);
    if (lent >= 0) {
        static unsigned char much[LENT_SIZE];
        const int small = 1; /* the kernel takes the smallest size that it has */
        ck_assert_int_eq(
            setsockopt(connection_socket(connection), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
            0);
        for (uint32_t i = 0; i < LENT; i++) {
            const struct connection_output output = {.bytes = much,
                                                     .size = sizeof(much),
                                                     .fd = i + 1 == LENT ? dup(lent) : -1,
                                                     .lends_fd = true};
            ck_assert(connection_send(connection, &output));
            if (output.fd >= 0) {
                close(output.fd);
            }
        }
        return;
    }
    if (!serving) {
        if (answers) {
            const struct connection_output output = {.bytes = bytes, .size = 1, .fd = -1};
            ck_assert_int_eq(connection_send(connection, &output), true);
        }
        return;
    }
    if (connection_peer(connection)->uid == OTHER && !all_users) {
        before_other = other_served ? before_other : all;
        other_served = true;
        return;
    }
    int64_t cost_ms = *bytes == 'c' ? SOCKET_TURN_MS : COST_MS;
    burn(cost_ms);
    of_patient += *bytes == 'p';
    begun += note->client++ == 0;
    of_first += begun < CONNECTIONS;
    in_turn++;
    all++;
    if (*bytes == 'c') { /* this packet breaks a rule, so the agent hangs up */
        socket_close(connection);
    }
}

static void on_closed(void *arg, struct connection *connection, const char *why)
{
    (void)arg;
    (void)connection;
    (void)why;
    closed++;
    if (dear) {
        burn(COST_MS);
        in_turn++;
    }
}

static void on_refused(void *arg, const struct peer *peer, const char *why)
{
    (void)arg;
    (void)peer;
    (void)why;
    if (dear) {
        burn(COST_MS);
        refused_in_turn++;
    }
}

static void on_check(uv_check_t *handle)
{
    (void)handle;
    most_in_turn = in_turn > most_in_turn ? in_turn : most_in_turn;
    in_turn = 0;
    most_refused = refused_in_turn > most_refused ? refused_in_turn : most_refused;
    refused_in_turn = 0;
    socket_shares_turned(&own_shares);
}

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    /* fails if the server has already turned the connection away */
    (void)!send(fd, "x", 1, MSG_NOSIGNAL);
    return fd;
}

static void open_server(uint32_t places)
{
    char error[SOCKET_ERROR_MAX];
    ck_assert_int_eq(chmod(suite_folder(), 0711), 0); /* lets another user enter the folder */
    snprintf(path, sizeof(path), "%s/turns.socket", suite_folder());
    const struct socket_config config = {
        .path = path,
        .for_all = true,
        .connections_max = places,
        .shares = &own_shares,
        .handler = {.packet = on_packet, .closed = on_closed, .refused = on_refused}};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_check_init(&loop, &check), 0);
    ck_assert_int_eq(uv_check_start(&check, on_check), 0);
    server = socket_open(&loop, &config, error);
    ck_assert_msg(server != NULL, "%s", error);
}

static void set_up(void)
{
    open_server(CONNECTIONS + 1);
}

static void tear_down(void)
{
    socket_shut(server);
    uv_close((uv_handle_t *)&check, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void accept_all(void)
{
    for (uint32_t i = 0; i < 10; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

static void ask_much(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < PACKETS; k++) {
            ck_assert_int_eq(send(fds[i], "x", 1, MSG_DONTWAIT), 1);
        }
    }
    serving = true;
}

START_TEST(a_turn_ends_and_everybody_has_one)
{
    int fds[CONNECTIONS];
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial();
    }
    accept_all();
    ask_much(fds, CONNECTIONS);
    for (uint32_t i = 0; i < ROUNDS_MAX && all < CONNECTIONS * PACKETS; i++) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert_uint_eq(all, CONNECTIONS * PACKETS);
    ck_assert_uint_le(most_in_turn, MOST);
    /* No connection had a second turn before every connection had its first turn. */
    ck_assert_uint_le(of_first, (CONNECTIONS - 1) * MOST);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        close(fds[i]);
    }
}
END_TEST

/* A client leaves with an answer unread. The kernel reports an error once, and libuv watches the
 * connection no longer. The server still closes the connection. */
START_TEST(who_goes_out_of_turn_is_seen)
{
    int fds[CONNECTIONS];
    answers = true;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial();
    }
    accept_all();
    ask_much(fds, CONNECTIONS);
    uv_run(&loop, UV_RUN_ONCE); /* the share is used up, and most connections had no turn */
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        close(fds[i]);
    }
    for (uint32_t i = 0; i < CONNECTIONS * PACKETS && closed < CONNECTIONS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_eq(closed, CONNECTIONS);
}
END_TEST

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Receives a packet, if one is there. Returns the descriptor that came with it; -1: none. */
static int receive_descriptor(int from, uint32_t *got)
{
    static unsigned char bytes[LENT_SIZE];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int fd = -1;
    if (recvmsg(from, &message, MSG_DONTWAIT) != LENT_SIZE) {
        return -1;
    }
    (*got)++;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL) {
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    }
    return fd;
}

/* A packet that has to wait keeps a duplicate of the descriptor. The caller closes its own
 * descriptor, and another file may get that number. */
START_TEST(a_lent_descriptor_waits_with_its_packet)
{
    int ends[2];
    struct stat wanted;
    struct stat found;
    uint32_t got = 0;
    bool received = false;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fstat(ends[0], &wanted), 0);
    lent = ends[0];
    int client = dial();
    unsigned before = count_descriptors();
    accept_all();
    for (uint32_t i = 0; i < ROUNDS_MAX && got < LENT; i++) {
        int fd = receive_descriptor(client, &got);
        if (fd >= 0) {
            ck_assert_uint_eq(got, LENT);
            ck_assert_int_eq(fstat(fd, &found), 0);
            ck_assert_uint_eq(found.st_ino, wanted.st_ino);
            ck_assert_uint_eq(found.st_dev, wanted.st_dev);
            close(fd);
            received = true;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert(received);
    ck_assert_uint_eq(count_descriptors(), before + 1); /* the server's end of the connection */
    /* now a client leaves without reading */
    ck_assert_int_eq(send(client, "x", 1, 0), 1);
    accept_all();
    close(client);
    for (uint32_t i = 0; i < ROUNDS_MAX && closed < 1; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_le(count_descriptors(), before);
}
END_TEST

/* The first packet of a connection uses up a part of the user's share, like every other packet. The
 * end of the connection does so, too. */
START_TEST(who_comes_and_goes_does_so_in_turn)
{
    int fds[CONNECTIONS];
    serving = true;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial();
    }
    for (uint32_t i = 0; i < ROUNDS_MAX && all < CONNECTIONS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_eq(all, CONNECTIONS);
    ck_assert_uint_le(most_in_turn, MOST);
    most_in_turn = 0;
    dear = true;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        close(fds[i]);
    }
    for (uint32_t i = 0; i < ROUNDS_MAX && closed < CONNECTIONS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_eq(closed, CONNECTIONS);
    ck_assert_uint_le(most_in_turn, MOST);
}
END_TEST

/* Clients leave with answers unread. The kernel reports this as an error of the socket. The server
 * closes these connections, too, within the user's share of each turn. */
START_TEST(who_goes_with_an_answer_unread_does_so_in_turn)
{
    int fds[CONNECTIONS];
    answers = true;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial();
    }
    accept_all();
    dear = true;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        close(fds[i]);
    }
    for (uint32_t i = 0; i < ROUNDS_MAX && closed < CONNECTIONS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_eq(closed, CONNECTIONS);
    ck_assert_uint_le(most_in_turn, MOST);
}
END_TEST

/* The server turns away a connection for which it has no room. Turning connections away costs at
 * most a part of each turn, too. */
START_TEST(turning_away_has_its_time)
{
    int fds[2 * CONNECTIONS + 1];
    dear = true;
    for (uint32_t i = 0; i < 2 * CONNECTIONS + 1; i++) {
        fds[i] = dial();
    }
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_gt(most_refused, 0);
    ck_assert_uint_le(most_refused, SOCKET_ACCEPTS_MS / COST_MS);
    for (uint32_t i = 0; i < 2 * CONNECTIONS + 1; i++) {
        close(fds[i]);
    }
}
END_TEST

/* Silent connections of very many users fill the table. For each new connection the oldest
 * connection is closed. */
START_TEST(silence_of_many_users_keeps_nobody_out)
{
    enum { SILENT = SOCKET_GREETING_MAX, EACH = SOCKET_GREETING_MAX_PER_USER };
    static int fds[SILENT];
    struct rlimit limit;
    char byte = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (geteuid() != 0 || limit.rlim_max < 3 * SILENT) {
        return;
    }
    tear_down();
    open_server(2 * SILENT);
    mute = true;
    for (uint32_t i = 0; i < SILENT; i++) {
        ck_assert_int_eq(seteuid(OTHER + i / EACH), 0);
        fds[i] = dial();
        ck_assert_int_eq(seteuid(0), 0);
        if (i % 16 == 15) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
    }
    accept_all();
    ck_assert_uint_eq(closed, 0);
    ck_assert_int_eq(usleep((SOCKET_GREETING_SURE_MS + 20) * 1000), 0);
    mute = false;
    answers = true;
    int fd = dial();
    for (uint32_t i = 0; i < ROUNDS_MAX && recv(fd, &byte, 1, MSG_DONTWAIT) < 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_int_eq(byte, 'x'); /* another byte would mean "no room" */
    ck_assert_uint_eq(closed, 1);
    /* the oldest connection was closed */
    ck_assert_int_eq(recv(fds[0], &byte, 1, MSG_DONTWAIT), 0);
    close(fd);
    for (uint32_t i = 0; i < SILENT; i++) {
        close(fds[i]);
    }
}
END_TEST

/* The last connection belongs to another user. That connection does not wait for all earlier
 * ones. */
START_TEST(another_user_is_not_behind)
{
    int fds[CONNECTIONS];
    int steps[2];
    char byte;
    if (geteuid() != 0) {
        return; /* only root can act as two users */
    }
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial();
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, steps), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setgid(OTHER) != 0 || setuid(OTHER) != 0) {
            _exit(1);
        }
        int fd = dial();
        close(steps[0]);
        bool good = write(steps[1], "x", 1) == 1 && read(steps[1], &byte, 1) == 1 &&
                    send(fd, "x", 1, 0) == 1 && write(steps[1], "x", 1) == 1;
        /* waits until the test closes its end */
        _exit(good && read(steps[1], &byte, 1) != 0 ? 2 : 3);
    }
    ck_assert_int_eq(read(steps[0], &byte, 1), 1);
    accept_all();
    ask_much(fds, CONNECTIONS);
    ck_assert_int_eq(write(steps[0], "x", 1), 1);
    ck_assert_int_eq(read(steps[0], &byte, 1), 1);
    for (uint32_t i = 0; i < ROUNDS_MAX && all < CONNECTIONS * PACKETS; i++) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert(other_served);
    ck_assert_uint_le(before_other, 2 * MOST);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        close(fds[i]);
    }
}
END_TEST

/* Each of many users has its turn, and no user has a second turn before every user had its first
 * turn. */
START_TEST(many_users_have_a_turn_together)
{
    int fds[USERS];
    uint32_t first_lap = 0;
    if (geteuid() != 0) {
        return;
    }
    all_users = true;
    for (uint32_t i = 0; i < USERS; i++) {
        ck_assert_int_eq(seteuid(OTHER + i), 0); /* the kernel records which user connects */
        fds[i] = dial();
        ck_assert_int_eq(seteuid(0), 0);
    }
    accept_all();
    ask_much(fds, USERS);
    for (uint32_t i = 0; i < ROUNDS_MAX && all < USERS * PACKETS; i++) {
        first_lap = begun < USERS ? all : first_lap;
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert_uint_eq(all, USERS * PACKETS);
    ck_assert_uint_le(most_in_turn, MOST_OF_ALL);
    ck_assert_uint_le(first_lap, (USERS - 1) * MOST);
    for (uint32_t i = 0; i < USERS; i++) {
        close(fds[i]);
    }
}
END_TEST

/* In each turn more connections come than one turn can serve. A client that was connected before is
 * still served. */
START_TEST(who_comes_is_not_before_who_waits)
{
    int fds[STAYING * COMING];
    int fd = dial();
    accept_all();
    for (uint32_t i = 0; i < PATIENT; i++) {
        ck_assert_int_eq(send(fd, "p", 1, MSG_DONTWAIT), 1);
    }
    serving = true;
    for (uint32_t turn = 0; turn < COMING_TURNS && of_patient < PATIENT; turn++) {
        for (uint32_t i = 0; i < COMING; i++) {
            int *place = &fds[turn % STAYING * COMING + i];
            if (turn >= STAYING) {
                close(*place);
            }
            *place = dial();
            ck_assert_int_eq(send(*place, "c", 1, MSG_DONTWAIT), 1);
        }
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert_uint_eq(of_patient, PATIENT);
    close(fd); /* the other connections are closed when the process ends */
}
END_TEST

/* In each turn more users come than one turn can serve. Each sends one request, which costs its
 * whole share of the turn, and leaves. A user that was there before still has its turn again and
 * again. */
START_TEST(users_who_come_are_not_before_who_waits)
{
    enum { TURNS = 1000, IN_EACH = MOST_OF_ALL / MOST + 1, COMERS = TURNS * IN_EACH };
    static struct socket_shares shares;
    static struct socket_share *comers[COMERS];
    static uint32_t served[COMERS];
    const int64_t cost_ns = SOCKET_TURN_MS * INT64_C(1000000);
    uint32_t patient_served;
    uint32_t turns_had = 0;
    struct socket_share *patient = socket_share_join(&shares, 1, &patient_served);
    for (uint32_t come = 0; come < COMERS;) {
        socket_shares_turned(&shares);
        for (uint32_t i = 0; i < come; i++) {
            if (comers[i] != NULL && socket_share_turn(comers[i], &served[i])) {
                (void)socket_share_spend(comers[i], cost_ns);
                socket_share_leave(comers[i]);
                comers[i] = NULL;
            }
        }
        for (uint32_t i = 0; i < IN_EACH; i++, come++) {
            comers[come] = socket_share_join(&shares, OTHER + come, &served[come]);
        }
        if (socket_share_turn(patient, &patient_served)) {
            (void)socket_share_spend(patient, cost_ns);
            turns_had++;
        }
    }
    ck_assert_uint_gt(turns_had, 10);
    for (uint32_t i = 0; i < COMERS; i++) {
        socket_share_leave(comers[i]);
    }
    socket_share_leave(patient);
    for (uint32_t i = 0; i < SOCKET_SHARE_HEADS; i++) {
        ck_assert_ptr_null(shares.heads[i]);
    }
}
END_TEST

/* A call that costs more than the user's share of a turn makes a debt. The user waits until the
 * debt is paid back. */
START_TEST(calls_that_cost_much_are_a_debt)
{
    static struct socket_shares shares;
    const int64_t ms = 1000000;
    const int64_t now_ns = clock_boottime_ns();
    uint32_t served;
    struct socket_share *share = socket_share_join(&shares, 7, &served);
    for (uint32_t i = 0; i < SOCKET_TURN_MS; i++) {
        socket_share_charge(share, ms, now_ns);
    }
    ck_assert_int_eq(socket_share_owes(share, now_ns), 0);
    socket_share_charge(share, ms, now_ns);
    ck_assert_int_eq(socket_share_owes(share, now_ns), now_ns + SOCKET_DEBT_TIMES * ms);
    ck_assert_int_eq(socket_share_owes(share, now_ns + SOCKET_DEBT_TIMES * ms), 0);
    socket_shares_turned(&shares);
    socket_share_charge(share, ms, now_ns);
    ck_assert_int_eq(socket_share_owes(share, now_ns), now_ns + SOCKET_DEBT_TIMES * ms);
    socket_share_charge(share, 50 * ms, now_ns);
    ck_assert_int_eq(socket_share_owes(share, now_ns), now_ns + SOCKET_DEBT_TIMES * 51 * ms);
    socket_share_leave(share); /* the user's debt stays */
    ck_assert_ptr_eq(socket_share_join(&shares, 7, &served), share);
    socket_share_charge(share, 5000 * ms, now_ns);
    ck_assert_int_eq(socket_share_owes(share, now_ns), now_ns + SOCKET_DEBT_MAX_MS * ms);
    socket_share_leave(share);
    ck_assert_ptr_nonnull(socket_share_find(&shares, 7));
    socket_shares_forget(&shares);
    ck_assert_ptr_null(socket_share_find(&shares, 7));
}
END_TEST

START_TEST(who_owes_is_served_when_it_is_paid)
{
    const int64_t cost_ns = 15 * INT64_C(1000000);
    int fd = dial();
    accept_all();
    struct socket_share *share = socket_share_find(&own_shares, geteuid());
    ck_assert_ptr_nonnull(share);
    int64_t now_ns = clock_boottime_ns();
    socket_share_charge(share, cost_ns, now_ns);
    ask_much(&fd, 1);
    int coming = dial(); /* a new connection of the user is accepted, but has to wait, too */
    while (clock_boottime_ns() < now_ns + SOCKET_DEBT_TIMES * cost_ns) {
        uv_run(&loop, UV_RUN_NOWAIT);
        socket_tick(server, now_ns);
        ck_assert_uint_eq(all, 0);
    }
    ck_assert_int_le(socket_next_tick_ns(server), clock_boottime_ns());
    for (uint32_t i = 0; i < ROUNDS_MAX && all < PACKETS + 1; i++) {
        socket_tick(server, clock_boottime_ns());
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_uint_eq(all, PACKETS + 1);
    close(fd);
    close(coming);
}
END_TEST

static int bind_another(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

/* The socket's file may have been removed, and another agent may have made its own file there. The
 * end of this agent does not remove that file. */
START_TEST(only_its_own_file_is_removed)
{
    char error[SOCKET_ERROR_MAX];
    ck_assert_int_eq(unlink(path), 0);
    int other = bind_another();
    tear_down();
    ck_assert_int_eq(access(path, F_OK), 0);
    close(dial()); /* connects to the other agent */
    close(other);
    ck_assert_int_eq(unlink(path), 0);

    open_server(1);
    tear_down();
    ck_assert_int_ne(access(path, F_OK), 0);

    open_server(1);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(socket_listen_again(server, error), "%s", error);
    tear_down();
    /* this agent's file, which it had made again, is removed */
    ck_assert_int_ne(access(path, F_OK), 0);
    open_server(1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("turns");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_turn_ends_and_everybody_has_one);
    tcase_add_test(tests, who_goes_out_of_turn_is_seen);
    tcase_add_test(tests, a_lent_descriptor_waits_with_its_packet);
    tcase_add_test(tests, many_users_have_a_turn_together);
    tcase_add_test(tests, who_comes_is_not_before_who_waits);
    tcase_add_test(tests, users_who_come_are_not_before_who_waits);
    tcase_add_test(tests, who_comes_and_goes_does_so_in_turn);
    tcase_add_test(tests, who_goes_with_an_answer_unread_does_so_in_turn);
    tcase_add_test(tests, turning_away_has_its_time);
    tcase_add_test(tests, another_user_is_not_behind);
    tcase_add_test(tests, silence_of_many_users_keeps_nobody_out);
    tcase_add_test(tests, calls_that_cost_much_are_a_debt);
    tcase_add_test(tests, who_owes_is_served_when_it_is_paid);
    tcase_add_test(tests, only_its_own_file_is_removed);
    return suite_main("socket_turns", tests);
}
