/*
 * Runs another program and waits for its end. The programs are holdfastd, which checks
 * configurations, and openssl, which makes certificates.
 */
#ifndef HOLDFAST_CLI_TOOL_H
#define HOLDFAST_CLI_TOOL_H

enum { TOOL_SAID_MAX = 4096 };

/* Returns the path of holdfastd in this program's own folder. If it is not there, returns
 * "holdfastd", for which tool_run() searches PATH. */
const char *tool_agent(void);

/*
 * Runs the program words[0] with the arguments after it, up to a NULL. If words[0] has no slash,
 * searches PATH for the program. `input` is the text of the program's standard input; NULL: none.
 * Writes the first part of the program's stderr to `said`, and drops its stdout. Returns the
 * program's exit status, 128 + n if signal n ended it, or -1 with errno if it could not be run.
 */
int tool_run(const char *const *words, const char *input, char said[TOOL_SAID_MAX])
    __attribute__((warn_unused_result));

#endif
