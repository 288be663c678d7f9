/*
 * Writes and reads what fits no table of wire_schema.c: the names of agents, the record of voters,
 * and the items of a BROKEN. The items are the owners that a coordinator asked, or the
 * holds that an owner ended.
 *
 *   owners = [label...]
 *   holds  = [[pid, uid, held_ms, token, shared, command]...]
 *   notes  = [note...], one for each hold; or [] if no hold has one
 *
 * A number that is not known is -1, and a command or note that is not known is empty. The writer
 * cuts and cleans commands and notes as in LISTED, because other processes choose them.
 *
 *   record = [cell_id, cell_id, recoveries, number, next_ballot_id, complete, act, changed,
 *             voters], or []
 *   voters = [[name, store_id, store_id, ballot_id, address]...]
 */
#include "wire_body.h"

#include "proto/check.h"

#include <string.h>

enum { HOLD_ELEMENTS = 6, RECORD_ELEMENTS = 9, VOTER_ELEMENTS = 5 };

/* ---- agents ---- */

static bool agent_fits(bool or_none, struct hfi_text text)
{
    return hfi_text_fits(or_none ? HFI_TEXT_LABEL_OR_NONE : HFI_TEXT_LABEL, text);
}

void wire_write_agent(struct hfi_writer *writer, bool or_none, const struct message_agent *agent)
{
    HF_CHECK(agent_fits(or_none, (struct hfi_text){agent->text, agent->length}));
    hfi_write_string(writer, agent->text, agent->length);
}

bool wire_read_agent(struct hfi_reader *reader, bool or_none, struct message_agent *agent)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_TEXT || !agent_fits(or_none, item.text)) {
        return false;
    }
    agent->length = (uint8_t)item.text.size;
    memcpy(agent->text, item.text.bytes, item.text.size);
    return true;
}

/* ---- addresses ---- */

void wire_write_visible(struct hfi_writer *writer, const char *text, uint32_t member_size)
{
    size_t size = strnlen(text, member_size);

    HF_CHECK(size < member_size &&
             hfi_text_fits(HFI_TEXT_ADDRESS, (struct hfi_text){text, (uint32_t)size}));
    hfi_write_string(writer, text, size);
}

bool wire_read_visible(struct hfi_reader *reader, char *text, uint32_t member_size)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_TEXT || item.text.size >= member_size ||
        !hfi_text_fits(HFI_TEXT_ADDRESS, item.text)) {
        return false;
    }
    memcpy(text, item.text.bytes, item.text.size);
    return true;
}

/* ---- the record of voters ---- */

void wire_write_voters(struct hfi_writer *writer, const struct message_voters *voters)
{
    HF_CHECK(voters->count <= MESSAGE_VOTERS_MAX);
    if (voters->count == 0) {
        hfi_write_array(writer, 0);
        return;
    }
    hfi_write_array(writer, RECORD_ELEMENTS);
    hfi_write_unsigned(writer, voters->cell_id[0]);
    hfi_write_unsigned(writer, voters->cell_id[1]);
    hfi_write_unsigned(writer, voters->recoveries);
    hfi_write_unsigned(writer, voters->number);
    hfi_write_unsigned(writer, voters->next_ballot_id);
    hfi_write_bool(writer, voters->complete);
    hfi_write_unsigned(writer, voters->act);
    wire_write_agent(writer, true, &voters->changed);
    hfi_write_array(writer, voters->count);
    for (uint32_t i = 0; i < voters->count; i++) {
        const struct message_voter *voter = &voters->of[i];

        hfi_write_array(writer, VOTER_ELEMENTS);
        wire_write_agent(writer, false, &voter->name);
        hfi_write_unsigned(writer, voter->store_id[0]);
        hfi_write_unsigned(writer, voter->store_id[1]);
        hfi_write_unsigned(writer, voter->ballot_id);
        wire_write_visible(writer, voter->address, MESSAGE_ADDRESS_MAX);
    }
}

static bool read_up_to(struct hfi_reader *reader, uint64_t max, uint64_t *value)
{
    struct hfi_item item = hfi_read_item(reader);

    *value = item.value;
    return item.type == HFI_ITEM_INTEGER && !item.negative && item.value <= max;
}

static bool read_voter(struct hfi_reader *reader, struct message_voter *voter)
{
    struct hfi_item head = hfi_read_item(reader);
    uint64_t id;

    memset(voter, 0, sizeof *voter); /* also sets the padding to zero */
    if (head.type != HFI_ITEM_ARRAY || head.value != VOTER_ELEMENTS ||
        !wire_read_agent(reader, false, &voter->name) ||
        !read_up_to(reader, UINT64_MAX, &voter->store_id[0]) ||
        !read_up_to(reader, UINT64_MAX, &voter->store_id[1]) ||
        !read_up_to(reader, UINT16_MAX, &id)) {
        return false;
    }
    voter->ballot_id = (uint16_t)id;
    return wire_read_visible(reader, voter->address, MESSAGE_ADDRESS_MAX);
}

bool wire_read_voters(struct hfi_reader *reader, struct message_voters *voters)
{
    struct hfi_item head = hfi_read_item(reader);
    struct hfi_item complete;
    uint64_t recoveries;
    uint64_t number;
    uint64_t next_id;
    uint64_t act;

    if (head.type != HFI_ITEM_ARRAY || head.value == 0) {
        return head.type == HFI_ITEM_ARRAY;
    }
    if (head.value != RECORD_ELEMENTS || !read_up_to(reader, UINT64_MAX, &voters->cell_id[0]) ||
        !read_up_to(reader, UINT64_MAX, &voters->cell_id[1]) ||
        !read_up_to(reader, UINT32_MAX, &recoveries) || !read_up_to(reader, UINT32_MAX, &number) ||
        !read_up_to(reader, UINT16_MAX, &next_id)) {
        return false;
    }
    voters->recoveries = (uint32_t)recoveries;
    voters->number = (uint32_t)number;
    voters->next_ballot_id = (uint16_t)next_id;
    complete = hfi_read_item(reader);
    voters->complete = complete.value != 0;
    if (complete.type != HFI_ITEM_BOOL || !read_up_to(reader, UINT8_MAX, &act) ||
        !wire_read_agent(reader, true, &voters->changed)) {
        return false;
    }
    voters->act = (uint8_t)act;
    head = hfi_read_item(reader);
    if (head.type != HFI_ITEM_ARRAY || head.value == 0 || head.value > MESSAGE_VOTERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < head.value; i++) {
        if (!read_voter(reader, &voters->of[i])) {
            return false;
        }
    }
    voters->count = (uint32_t)head.value;
    return true;
}

/* ---- the items of BROKEN ---- */

static void write_command(struct hfi_writer *writer, const struct message_hold *hold)
{
    char cleaned[HFI_FRAME_COMMAND_MAX];

    HF_CHECK(hold->command_size <= MESSAGE_COMMAND_MAX);
    struct hfi_text command = hfi_command_shown(
        (struct hfi_text){hold->command, hold->command_size}, cleaned);
    hfi_write_string(writer, command.bytes, command.size);
}

static bool read_command(struct hfi_reader *reader, struct message_hold *hold)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_TEXT || item.text.size > MESSAGE_COMMAND_MAX ||
        !hfi_text_fits(HFI_TEXT_COMMAND, item.text)) {
        return false;
    }
    hold->command_size = (uint8_t)item.text.size;
    memcpy(hold->command, item.text.bytes, item.text.size);
    return true;
}

static void write_hold(struct hfi_writer *writer, const struct message_hold *hold)
{
    hfi_write_array(writer, HOLD_ELEMENTS);
    hfi_write_signed(writer, hold->pid);
    hfi_write_signed(writer, hold->uid);
    hfi_write_signed(writer, hold->held_ms);
    hfi_write_unsigned(writer, hold->token);
    hfi_write_bool(writer, hold->shared);
    write_command(writer, hold);
}

/* Reads a number from 0 to max, or -1. */
static bool read_known(struct hfi_reader *reader, int64_t max, int64_t *value)
{
    struct hfi_item item = hfi_read_item(reader);

    *value = (int64_t)item.value;
    return item.type == HFI_ITEM_INTEGER &&
           (item.negative ? *value == -1 : item.value <= (uint64_t)max);
}

static bool read_token(struct hfi_reader *reader, uint64_t *token)
{
    struct hfi_item item = hfi_read_item(reader);

    *token = item.value;
    return item.type == HFI_ITEM_INTEGER && !item.negative && item.value <= MESSAGE_TOKEN_LIMIT;
}

static bool read_hold(struct hfi_reader *reader, struct message_hold *hold)
{
    struct hfi_item head = hfi_read_item(reader);
    struct hfi_item shared;

    memset(hold, 0, sizeof *hold); /* also sets the padding to zero */
    if (head.type != HFI_ITEM_ARRAY || head.value != HOLD_ELEMENTS ||
        !read_known(reader, INT32_MAX, &hold->pid) || !read_known(reader, UINT32_MAX, &hold->uid) ||
        !read_known(reader, INT64_MAX, &hold->held_ms) || !read_token(reader, &hold->token)) {
        return false;
    }
    shared = hfi_read_item(reader);
    hold->shared = shared.value != 0;
    return shared.type == HFI_ITEM_BOOL && read_command(reader, hold);
}

void wire_write_items(struct hfi_writer *writer, const struct message_broken *broken)
{
    hfi_write_array(writer, broken->count);
    for (uint32_t i = 0; i < broken->count; i++) {
        if (broken->part == MESSAGE_BROKEN_OWNERS) {
            wire_write_agent(writer, false, &broken->items.owners[i]);
        } else {
            write_hold(writer, &broken->items.holds[i]);
        }
    }
}

bool wire_read_items(struct hfi_reader *reader, struct message_broken *broken)
{
    struct hfi_item head = hfi_read_item(reader);

    if (head.type != HFI_ITEM_ARRAY ||
        head.value > message_broken_most((enum message_broken_part)broken->part)) {
        return false;
    }
    for (uint32_t i = 0; i < head.value; i++) {
        if (broken->part == MESSAGE_BROKEN_HOLDS) {
            if (!read_hold(reader, &broken->items.holds[i])) {
                return false;
            }
            continue;
        }
        memset(&broken->items.owners[i], 0, sizeof broken->items.owners[i]);
        if (!wire_read_agent(reader, false, &broken->items.owners[i])) {
            return false;
        }
    }
    broken->count = (uint8_t)head.value;
    return true;
}

static bool has_notes(const struct message_broken *broken)
{
    bool any = false;

    for (uint32_t i = 0; broken->part == MESSAGE_BROKEN_HOLDS && i < broken->count; i++) {
        any = any || broken->items.holds[i].note_size > 0;
    }
    return any;
}

void wire_write_notes(struct hfi_writer *writer, const struct message_broken *broken)
{
    uint32_t count = has_notes(broken) ? broken->count : 0;

    hfi_write_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        char cleaned[HFI_FRAME_NOTE_MAX];
        struct hfi_text note = hfi_note_shown(
            (struct hfi_text){message_broken_note(broken, i), broken->items.holds[i].note_size},
            HFI_FRAME_NOTE_MAX, cleaned);

        hfi_write_string(writer, note.bytes, note.size);
    }
}

bool wire_read_notes(struct hfi_reader *reader, struct message_broken *broken)
{
    struct hfi_item head = hfi_read_item(reader);
    uint32_t used = 0;

    if (head.type != HFI_ITEM_ARRAY || (head.value != 0 && (broken->part != MESSAGE_BROKEN_HOLDS ||
                                                            head.value != broken->count))) {
        return false;
    }
    for (uint32_t i = 0; i < head.value; i++) {
        struct hfi_item item = hfi_read_item(reader);

        if (item.type != HFI_ITEM_TEXT || !hfi_text_fits(HFI_TEXT_NOTE, item.text)) {
            return false;
        }
        if (item.text.size <= MESSAGE_NOTES_MAX - used) { /* else the note is left out */
            char *notes = broken->items.room + broken->count * sizeof(struct message_hold);

            memcpy(notes + used, item.text.bytes, item.text.size);
            broken->items.holds[i].note_size = (uint16_t)item.text.size;
            used += item.text.size;
        }
    }
    return true;
}
