/*
 * See tcp_ask.h.
 */
#include "tcp_ask.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int tcp_ask(unsigned port, const char *question, char *answer, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct timeval patience = {.tv_sec = 1};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size_t got = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, question, strlen(question), MSG_NOSIGNAL) == (ssize_t)strlen(question)) {
        ssize_t piece = 1;
        while (piece > 0 && got + 1 < size) {
            piece = recv(fd, answer + got, size - 1 - got, 0);
            got += piece > 0 ? (size_t)piece : 0;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    answer[got] = '\0';
    return got > 0 ? 0 : -1;
}
