/*
 * A program of a container that shares no /dev/shm with the agent. It takes and releases the lock
 * of its argument a thousand times, prints its last token, and prints the region that it has
 * mapped. With a second argument it takes the lock once more and keeps it until it is killed.
 */
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int region_print(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;

    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strstr(line, "/holdfast.");

        if (name) {
            printf("region %s", name);
            found = 1;
        }
    }
    if (maps) {
        fclose(maps);
    }
    return found ? 0 : 1;
}

int main(int argc, char **argv)
{
    hf_client *client;
    hf_lock *lock;
    struct hf_hold hold = {0};
    int error = hf_connect(NULL, &client);
    int turn;

    if (error || argc < 2) {
        fprintf(stderr, "%s\n", error ? hf_strerror(error) : "usage: region NAME [keep]");
        return 1;
    }
    error = hf_open(client, argv[1], NULL, &lock);
    for (turn = 0; !error && turn < 1000; turn++) {
        error = hf_acquire(lock, HF_EXCLUSIVE, 0, &hold);
        error = error ? error : hf_release(lock);
    }
    if (!error && argc > 2) {
        error = hf_acquire(lock, HF_EXCLUSIVE, 0, &hold);
    }
    if (error) {
        fprintf(stderr, "%s: %s\n", argv[1], hf_strerror(error));
        return error == HF_EBUSY ? 75 : 1;
    }
    printf("token %llu\n", (unsigned long long)hold.token);
    error = region_print();
    fflush(stdout);
    while (!error && argc > 2) {
        pause();
    }
    hf_disconnect(client);
    return error;
}
