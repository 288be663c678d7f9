/*
 * `holdfast`: locks from the command line. Everything is in run.c and the files it names; this one
 * is apart so that tests can link the rest.
 */
#include "cli.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv);
}
