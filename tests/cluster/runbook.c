/* See runbook.h. */
#include "runbook.h"

#include "require.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void runbook_read(struct runbook *runbook, const char *heading, unsigned count)
{
    char line[RUNBOOK_LINE_MAX];
    bool below = false;
    bool inside = false;
    unsigned block = 0;
    FILE *page = fopen(HOLDFAST_OPERATIONS, "r");
    REQUIRE(page != NULL, "%s", HOLDFAST_OPERATIONS);
    runbook->count = 0;
    while (fgets(line, sizeof(line), page) != NULL) {
        const char *text = line + strspn(line, " ");
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "## ", 3) == 0) {
            below = strcmp(line + 3, heading) == 0;
        } else if (below && strncmp(text, "```", 3) == 0) {
            block += inside;
            inside = !inside && strcmp(text, "```sh") == 0;
        } else if (below && inside) {
            REQUIRE(runbook->count < RUNBOOK_LINES_MAX, "too many commands: %s", heading);
            runbook->lines[runbook->count].block = block;
            strcpy(runbook->lines[runbook->count++].text, text);
        }
    }
    fclose(page);
    REQUIRE(runbook->count == count, "%s: found %u commands, expected %u", heading, runbook->count,
            count);
}

void runbook_replace(char *text, const char *from, const char *to)
{
    char rest[RUNBOOK_LINE_MAX];
    char *at = strstr(text, from);
    if (at != NULL) {
        strcpy(rest, at + strlen(from));
        int used = snprintf(at, RUNBOOK_LINE_MAX - (size_t)(at - text), "%s%s", to, rest);
        REQUIRE(used < RUNBOOK_LINE_MAX - (at - text), "too long: %s", text);
    }
}
