/*
 * Runs another program and waits for its end: holdfastd, which knows what a good configuration is,
 * and openssl, which makes certificates.
 */
#ifndef HOLDFAST_CLI_TOOL_H
#define HOLDFAST_CLI_TOOL_H

enum { TOOL_SAID_MAX = 4096 };

/* Returns the path of the holdfastd in the folder of this program. If there is none, returns
 * "holdfastd", which is then to be looked for in PATH. */
const char *tool_agent(void);

/*
 * Runs the program words[0], which is looked for in PATH if it has no slash, with the words after
 * it, up to a NULL. `input` is the text that it reads from its standard input; NULL: none. Writes
 * to `said` the beginning of what it wrote to stderr. Its standard output is lost. Returns its exit
 * status, or 128 + n if signal n ended it, or -1 with errno if it could not be run.
 */
int tool_run(const char *const *words, const char *input, char said[TOOL_SAID_MAX])
    __attribute__((warn_unused_result));

#endif
