/* The tables of the kinds' fields: see wire_schema.h. SCHEMA.md describes them in words. */
#include "wire_schema.h"

#include "proto/check.h"

static const struct field prepare_fields[] = {
    BALLOT(message_prepare, ballot),
    PARTITIONS(message_prepare, partitions),
    BOOL(message_prepare, rejoin),
};
static const struct field promise_fields[] = {
    BALLOT(message_promise, ballot),      PARTITIONS(message_promise, promised),
    PARTITIONS(message_promise, refused), PARTITIONS(message_promise, owned),
    BALLOT(message_promise, higher),
};
static const struct field read_kind_fields[] = {
    BALLOT(message_read, ballot),
    NAME(message_read, name),
};
static const struct field read_value_fields[] = {
    BALLOT(message_read_value, ballot),
    BALLOT(message_read_value, higher),
    CHECKPOINT(message_read_value, checkpoint),
    NAME(message_read_value, name),
    BOOL(message_read_value, known),
};
static const struct field accept_fields[] = {
    ORDER(message_accept, order),
    NAME(message_accept, name),
    BOOL(message_accept, chosen),
};
static const struct field accepted_fields[] = {
    ORDER(message_accepted, order),
    BALLOT(message_accepted, higher),
    BOOL(message_accepted, full),
    NAME(message_accepted, name),
};
static const struct field renew_fields[] = {
    AGENT(message_renew, agent), U32(message_renew, epoch), U64(message_renew, renewal_id),
    ECHO(message_renew, echo),   U64(message_renew, rules), ADDRESS(message_renew, advertise),
};
static const struct field renew_ack_fields[] = {
    AGENT(message_renew_ack, agent),
    U32(message_renew_ack, epoch),
    U64(message_renew_ack, renewal_id),
    ECHO(message_renew_ack, echo),
    BOOL(message_renew_ack, extended),
    FIELD_AS("dead_epoch", message_renew_ack, ended_epoch, FIELD_NUMBER, UINT32_MAX),
};
/* The Holdfast release of the sender, which `holdfast doctor` shows, and the URL of the sender's
 * status page, to which other status pages link. No decision depends on them. */
static const struct field renew_optional[] = {
    FIELD(message_renew, release, FIELD_RELEASE, 0),
    ADDRESS(message_renew, page),
    U64(message_renew, durations),
};
static const struct field heartbeat_optional[] = {
    PARTITIONS(message_heartbeat, settled),
    U32(message_heartbeat, leaves),
};
static const struct field renew_ack_optional[] = {
    FIELD(message_renew_ack, release, FIELD_RELEASE, 0),
    ADDRESS(message_renew_ack, page),
};
static const struct field session_fields[] = {
    AGENT(message_session, agent),
    U32(message_session, epoch),
};
static const struct field session_answer_fields[] = {
    AGENT(message_session_answer, agent),
    U32(message_session_answer, epoch),
    BOOL(message_session_answer, yes),
    DURATION(message_session_answer, wait_ns),
};
static const struct field acquire_fields[] = {
    ASKED(message_acquire),
    MODE(message_acquire, mode),
    DELAY(message_acquire, lock_delay_ms),
    U32(message_acquire, waited_ms),
};
/* Optional, because earlier releases do not have these fields. In a cell of such a release a try
 * waits. */
static const struct field acquire_optional[] = {
    NUMBER(message_acquire, tries, MESSAGE_TRIES_ONLY),
    ORDER(message_acquire, made),
};
static const struct field amend_fields[] = {
    ASKED(message_amend),
    ORDER(message_amend, version),
    MODE(message_amend, mode),
    DELAY(message_amend, lock_delay_ms),
    TOKEN(message_amend, token_last),
};
/* Optional, because earlier releases do not have these fields; see struct message_amend. */
static const struct field amend_optional[] = {
    TOKEN(message_amend, token_used),
    BOOL(message_amend, in_use),
};
static const struct field give_back_fields[] = {
    ASKED(message_give_back),
    ORDER(message_give_back, version),
    TOKEN(message_give_back, token_used),
};
static const struct field grant_fields[] = {
    ASKED(message_grant),
    ORDER(message_grant, version),
    MODE(message_grant, mode),
    DELAY(message_grant, lock_delay_ms),
    TOKEN(message_grant, token_first),
    TOKEN(message_grant, token_last),
    BOOL(message_grant, fresh),
};
static const struct field version_fields[] = {
    ASKED(message_version),
    ORDER(message_version, version),
};
/* Optional, because earlier releases do not have the field. They treat every recall as
 * MESSAGE_RECALL_WAITS. */
static const struct field recall_optional[] = {
    NUMBER(message_version, recall, MESSAGE_RECALL_END - 1),
};
static const struct field break_fields[] = {
    AGENT(message_break, agent), U64(message_break, request_id), NAME(message_break, name),
    BOOL(message_break, now),    ORDER(message_break, version),
};
/* Optional, because earlier releases do not have these fields; see struct message_break. */
static const struct field break_optional[] = {
    NUMBER(message_break, user, UINT64_C(1) << 32),
    BOOL(message_break, counts),
    ORDER(message_break, meant),
};
static const struct field outcome_fields[] = {
    AGENT(message_outcome, agent), U64(message_outcome, request_id),
    FIELD(message_outcome, result, FIELD_SIGNED, 99), /* leaves room for later error codes */
};
/* Optional, because earlier releases do not have these fields; see struct message_broken. */
static const struct field broken_optional[] = {
    NUMBER(message_broken, part, MESSAGE_BROKEN_END - 1),
    AGENT_OR_NONE(message_broken, owner),
    ORDER(message_broken, meant),
    U32(message_broken, closed_ms),
    U32(message_broken, total),
    FIELD(message_broken, count, FIELD_BROKEN_ITEMS, 0),
    FIELD_AS("notes", message_broken, count, FIELD_BROKEN_NOTES, 0),
};
static const struct field check_fields[] = {
    AGENT(message_check, agent), U64(message_check, request_id), NAME(message_check, name),
    TOKEN(message_check, token), U64(message_check, cell_word),  U32(message_check, epoch),
    U32(message_check, holder),  U32(message_check, seat),       BOOL(message_check, shared),
};
static const struct field owner_fields[] = {
    BALLOT(message_owner, ballot),
    PARTITIONS(message_owner, partitions),
};
static const struct field heartbeat_fields[] = {
    U64(message_heartbeat, number),       U64(message_heartbeat, echo),
    BOOL(message_heartbeat, majority),    BOOL(message_heartbeat, votes),
    PARTITIONS(message_heartbeat, owned),
};
static const struct field hello_fields[] = {
    BOOL(message_hello, answer),
    NUMBER(message_hello, status, MESSAGE_STATUS_END - 1),
    U64(message_hello, incarnation),
    U64(message_hello, echo),
    DURATION(message_hello, rules.session_ttl_ns),
    DURATION(message_hello, rules.grace_ns),
    U32(message_hello, rules.max_drift_percent),
    BOOL(message_hello, bootstrapped),
    MEMBER(message_hello, seen),
    U64(message_hello, seen_commit),
    ADDRESS(message_hello, advertise),
};
static const struct field sync_fields[] = {
    NUMBER(message_sync, what, MESSAGE_SYNC_MARKS),
    NUMBER(message_sync, partition, MESSAGE_PARTITIONS - 1),
    U64(message_sync, id),
    U32(message_sync, after),
    U64(message_sync, digest),
    CHECKPOINT(message_sync, checkpoint),
};
static const struct field synced_fields[] = {
    NUMBER(message_synced, what, MESSAGE_SYNC_MARKS),
    NUMBER(message_synced, partition, MESSAGE_PARTITIONS - 1),
    NUMBER(message_synced, kind, MESSAGE_SYNCED_END),
    U64(message_synced, id),
    U32(message_synced, index),
    U32(message_synced, next),
    CHECKPOINT(message_synced, checkpoint),
};
static const struct field checkpoint_fields[] = {
    BALLOT(message_delete, ballot),
    NUMBER(message_delete, partition, MESSAGE_PARTITIONS - 1),
    CHECKPOINT(message_delete, checkpoint),
    U64(message_delete, live),
};
static const struct field checkpointed_fields[] = {
    BALLOT(message_deleted, ballot), NUMBER(message_deleted, partition, MESSAGE_PARTITIONS - 1),
    ORDER(message_deleted, order),   BALLOT(message_deleted, higher),
    BOOL(message_deleted, missing),
};
static const struct field refused_fields[] = {
    AGENT(message_refused, agent),
    U32(message_refused, epoch),
    U64(message_refused, request_id),
    FIELD(message_refused, name, FIELD_NAME_OR_NONE, 0),
    NUMBER(message_refused, reason, UINT8_MAX),
    AGENT_OR_NONE(message_refused, owner),
};
/* Optional, because earlier releases do not have these fields; see struct message_refused. */
static const struct field refused_optional[] = {
    U32(message_refused, closed_ms),
    U32(message_refused, table),
    U32(message_refused, room),
};
static const struct field change_prepare_fields[] = {
    U32(message_change, number),
    BALLOT(message_change, ballot),
    FIELD(message_change, voters, FIELD_VOTERS, 0),
};
static const struct field change_promise_fields[] = {
    U32(message_change, number),
    BALLOT(message_change, ballot),
    BALLOT(message_change, higher),
    BALLOT(message_change, accepted),
    FIELD(message_change, voters, FIELD_VOTERS, 0),
};
static const struct field change_accept_fields[] = {
    U32(message_change, number),
    BALLOT(message_change, ballot),
    FIELD(message_change, voters, FIELD_VOTERS, 0),
};
static const struct field change_accepted_fields[] = {
    U32(message_change, number),
    BALLOT(message_change, ballot),
    BALLOT(message_change, higher),
};
static const struct field member_asked_fields[] = {
    AGENT(message_member_asked, agent),           U64(message_member_asked, request_id),
    NUMBER(message_member_asked, act, UINT8_MAX), AGENT(message_member_asked, voter),
    ADDRESS(message_member_asked, address),       U32(message_member_asked, number),
};
static const struct field learned_fields[] = {
    U64(message_learned, id),
    BOOL(message_learned, ready),
    U32(message_learned, copied),
    U32(message_learned, total),
};
static const struct field voters_kind_fields[] = {
    FIELD(message_told, voters, FIELD_VOTERS, 0),
};
static const struct field ask_voters_fields[] = {
    U32(message_ask_voters, number),
};
static const struct field learn_fields[] = {
    U64(message_told, id),
    BOOL(message_told, learn),
    FIELD(message_told, voters, FIELD_VOTERS, 0),
};
static const struct field membered_fields[] = {
    AGENT(message_membered, agent),
    U64(message_membered, request_id),
    NUMBER(message_membered, stage, UINT8_MAX),
    NUMBER(message_membered, reason, UINT8_MAX),
    AGENT_OR_NONE(message_membered, subject),
    U32(message_membered, number),
    U32(message_membered, done),
    U32(message_membered, total),
};

#define SCHEMA(label, array)                                                                       \
    {                                                                                              \
        .name = (label), .fields = (array), .count = COUNT(array)                                  \
    }

#define SCHEMA_OPTIONAL(label, array, more)                                                        \
    {                                                                                              \
        .name = (label), .fields = (array), .count = COUNT(array), .optional = (more),             \
        .optional_count = COUNT(more),                                                             \
    }

/* The last `n` of the optional fields exist only from version 5 on. */
#define SCHEMA_NEWEST(label, array, more, n)                                                       \
    {                                                                                              \
        .name = (label), .fields = (array), .count = COUNT(array), .optional = (more),             \
        .optional_count = COUNT(more), .newest_count = (n),                                        \
    }

static const struct message_schema schemas[] = {
    [MESSAGE_PREPARE] = SCHEMA("PREPARE", prepare_fields),
    [MESSAGE_PROMISE] = SCHEMA("PROMISE", promise_fields),
    [MESSAGE_READ] = SCHEMA("READ", read_kind_fields),
    [MESSAGE_VALUE] = SCHEMA("VALUE", read_value_fields),
    [MESSAGE_ACCEPT] = SCHEMA("ACCEPT", accept_fields),
    [MESSAGE_ACCEPTED] = SCHEMA("ACCEPTED", accepted_fields),
    [MESSAGE_RENEW] = SCHEMA_NEWEST("RENEW", renew_fields, renew_optional, 1),
    [MESSAGE_POLL] = SCHEMA("POLL", session_fields),
    [MESSAGE_POLLED] = SCHEMA("POLLED", session_answer_fields),
    [MESSAGE_MARK] = SCHEMA("MARK", session_fields),
    [MESSAGE_MARKED] = SCHEMA("MARKED", session_answer_fields),
    [MESSAGE_ACQUIRE] = SCHEMA_NEWEST("ACQUIRE", acquire_fields, acquire_optional, 2),
    [MESSAGE_AMEND] = SCHEMA_OPTIONAL("AMEND", amend_fields, amend_optional),
    [MESSAGE_GIVE_BACK] = SCHEMA("GIVE_BACK", give_back_fields),
    [MESSAGE_BREAK] = SCHEMA_OPTIONAL("BREAK", break_fields, break_optional),
    [MESSAGE_HEARTBEAT] = SCHEMA_NEWEST("BEAT", heartbeat_fields, heartbeat_optional, 2),
    [MESSAGE_HELLO] = SCHEMA("HELLO", hello_fields),
    [MESSAGE_SYNC] = SCHEMA("PULL", sync_fields),
    [MESSAGE_SYNCED] = SCHEMA("PULLED", synced_fields),
    [MESSAGE_CHECKPOINT] = SCHEMA("CHECKPOINT", checkpoint_fields),
    [MESSAGE_CHECKPOINTED] = SCHEMA("CHECKPOINTED", checkpointed_fields),
    [MESSAGE_CHANGE_PREPARE] = SCHEMA("CHANGE_PREPARE", change_prepare_fields),
    [MESSAGE_CHANGE_PROMISE] = SCHEMA("CHANGE_PROMISE", change_promise_fields),
    [MESSAGE_CHANGE_ACCEPT] = SCHEMA("CHANGE_ACCEPT", change_accept_fields),
    [MESSAGE_CHANGE_ACCEPTED] = SCHEMA("CHANGE_ACCEPTED", change_accepted_fields),
    [MESSAGE_MEMBER] = SCHEMA("MEMBER", member_asked_fields),
    [MESSAGE_LEARNED] = SCHEMA("LEARNED", learned_fields),
    [MESSAGE_RENEW_ACK] = SCHEMA_OPTIONAL("RENEW_ACK", renew_ack_fields, renew_ack_optional),
    [MESSAGE_GRANT] = SCHEMA("GRANT", grant_fields),
    [MESSAGE_AMENDED] = SCHEMA("AMENDED", grant_fields),
    [MESSAGE_GIVE_BACK_ACK] = SCHEMA("GIVE_BACK_ACK", version_fields),
    [MESSAGE_RECALL] = SCHEMA_OPTIONAL("RECALL", version_fields, recall_optional),
    [MESSAGE_REFUSED] = SCHEMA_NEWEST("REFUSED", refused_fields, refused_optional, 2),
    [MESSAGE_OWNER] = SCHEMA("OWNER", owner_fields),
    [MESSAGE_BREAK_HOLD] = SCHEMA_OPTIONAL("BREAK_HOLD", break_fields, break_optional),
    [MESSAGE_BROKEN] = SCHEMA_NEWEST("BROKEN", outcome_fields, broken_optional, 1),
    [MESSAGE_CHECK] = SCHEMA("CHECK", check_fields),
    [MESSAGE_CHECKED] = SCHEMA("CHECKED", outcome_fields),
    [MESSAGE_HELLO_ACK] = SCHEMA("HELLO_ACK", hello_fields),
    [MESSAGE_VOTERS] = SCHEMA("VOTERS", voters_kind_fields),
    [MESSAGE_ASK_VOTERS] = SCHEMA("ASK_VOTERS", ask_voters_fields),
    [MESSAGE_LEARN] = SCHEMA("LEARN", learn_fields),
    [MESSAGE_MEMBERED] = SCHEMA("MEMBERED", membered_fields),
};
_Static_assert(COUNT(schemas) == MESSAGE_KIND_END, "a schema for the last kind");

const struct message_schema *wire_schema(enum message_kind kind)
{
    HF_CHECK(message_kind_valid((unsigned)kind));
    return &schemas[kind];
}
