/* `holdfast member add`, `remove`, `replace` and `move`: changes of the voters. */
#ifndef HOLDFAST_CLI_MEMBER_CHANGE_H
#define HOLDFAST_CLI_MEMBER_CHANGE_H

#include "cli.h"
#include "options.h"

/* Returns whether the word names a change of the voters. */
bool member_is_change(const char *word);

/* Makes the change that the words ask for; words->plain[0] is its name. wait_ns: how long to wait
 * for it at most; negative: for ever. Returns the exit status. */
int member_change(struct cli *cli, struct arguments *words, int64_t wait_ns);

#endif
