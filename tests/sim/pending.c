/* What the quorum core's header declares and no file of it has yet; gone as soon as it has. */
#include "sim.h"

__attribute__((weak)) enum message_standing quorum_standing(const struct quorum *quorum)
{
    (void)quorum;
    return MESSAGE_STANDING_VOTING;
}

__attribute__((weak)) bool quorum_load_checkpoint(struct quorum *quorum,
                                                  const struct quorum_checkpoint *checkpoint)
{
    (void)quorum;
    return checkpoint != NULL;
}

__attribute__((weak)) bool quorum_load_member(struct quorum *quorum,
                                              const struct quorum_member *member)
{
    (void)quorum;
    return member != NULL;
}

__attribute__((weak)) bool quorum_load_seen(struct quorum *quorum, const struct quorum_seen *seen)
{
    (void)quorum;
    return seen != NULL;
}

__attribute__((weak)) void quorum_rules(const struct quorum_config *config,
                                        struct message_rules *rules)
{
    rules->voter_count = config->voter_count;
}
