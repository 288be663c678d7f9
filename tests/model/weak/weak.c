/*
 * Finds which outcomes of a litmus test the memory model of C11 allows, by trying all executions.
 *
 * The model is operational. A location is a list of messages in its modification order. For each
 * location a thread has a view: the oldest message that it may still read. A load reads any message
 * from the view on. A store inserts a message anywhere after the view. A read-modify-write inserts
 * its message directly after the message that it read, and no message may come between them. A
 * released message carries its writer's view, which a thread that acquires the message takes over.
 * A read-modify-write also passes on the view of the message that it read (C20's release
 * sequences).
 *
 * A seq_cst operation releases and acquires. All seq_cst operations have one common view. No
 * seq_cst operation reads or writes before a seq_cst store to its location that is in the common
 * view. Such a store enters the common view only at the next seq_cst operation of its thread, or of
 * a thread that the store happened before. On Arm, too, another thread may see a relaxed store
 * before the seq_cst swap that precedes the store. (Kang et al., A Promising Semantics, POPL 2017,
 * without promises; for seq_cst Lahav et al., Repairing Sequential Consistency in C/C++11, PLDI
 * 2017.)
 *
 * So stores become visible late, and in different orders to different threads. Arm is stricter: on
 * Arm all threads see one order. The model has no load that depends on a later store of its own
 * thread (load buffering). RC11 forbids it, but Arm allows it between relaxed operations without a
 * dependency. No row of MEMORY_ORDER.md relies on its absence: a relaxed value is used only after
 * an ordering operation.
 */
#include "weak.h"

#include <stdlib.h>
#include <string.h>

#include "proto/check.h"

enum { MESSAGES_MAX = 12, STACK_MAX = 1 << 14 };
static const uint64_t states_max = 100 * 1000 * 1000;

struct view {
    uint8_t at[LOCATIONS_MAX];    /* the oldest message that the thread may still read */
    uint8_t known[LOCATIONS_MAX]; /* the newest message that happens before the thread's next
                                   * step */
};

struct message {
    int8_t value;
    /* written by a read-modify-write: no message may come between this message and the previous
     * message */
    bool attached;
    struct view carried;
};

struct thread {
    uint8_t next; /* the next step */
    int8_t registers[REGISTERS_MAX];
    struct view view;
};

struct state {
    struct message messages[LOCATIONS_MAX][MESSAGES_MAX];
    uint8_t count[LOCATIONS_MAX];
    uint8_t seq_cst[LOCATIONS_MAX];              /* the common view of all seq_cst operations */
    uint8_t pending[THREADS_MAX][LOCATIONS_MAX]; /* each thread's seq_cst stores that are not in
                                                  * the common view; 0: none */
    struct thread threads[THREADS_MAX];
};

struct search {
    const struct litmus *litmus;
    struct state *stack;
    size_t depth;
};

static bool acquires(enum order order)
{
    return order == ACQUIRE || order == ACQUIRE_RELEASE || order == SEQ_CST;
}

static bool releases(enum order order)
{
    return order == RELEASE || order == ACQUIRE_RELEASE || order == SEQ_CST;
}

static void join(struct view *view, const struct view *other)
{
    for (unsigned i = 0; i < LOCATIONS_MAX; i++) {
        view->at[i] = other->at[i] > view->at[i] ? other->at[i] : view->at[i];
        view->known[i] = other->known[i] > view->known[i] ? other->known[i] : view->known[i];
    }
}

/* Adjusts an index of a message, because a message was inserted at `place`. */
static void shift_one(uint8_t *at, unsigned place)
{
    *at = (uint8_t)(*at + (*at >= place));
}

static void shift(struct view *view, unsigned location, unsigned place)
{
    shift_one(&view->at[location], place);
    shift_one(&view->known[location], place);
}

/* Inserts an empty message at `place`. Returns it. */
static struct message *insert(struct state *state, unsigned location, unsigned place)
{
    struct message *messages = state->messages[location];
    unsigned count = state->count[location];
    HF_CHECK(count < MESSAGES_MAX && place <= count);
    memmove(messages + place + 1, messages + place, (count - place) * sizeof(*messages));
    state->count[location]++;
    for (unsigned i = 0; i < LOCATIONS_MAX; i++) {
        for (unsigned k = 0; k < state->count[i]; k++) {
            shift(&state->messages[i][k].carried, location, place);
        }
    }
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        shift(&state->threads[i].view, location, place);
        shift_one(&state->pending[i][location], place);
    }
    shift_one(&state->seq_cst[location], place);
    messages[place] = (struct message){.value = 0};
    return &messages[place];
}

/* Executes the WHENs that are the thread's next steps. If a condition is false, the thread ends. */
static void settle(const struct litmus *litmus, struct state *state, unsigned number)
{
    struct thread *thread = &state->threads[number];
    while (thread->next < litmus->steps[number] &&
           litmus->code[number][thread->next].operation == WHEN) {
        const struct step *step = &litmus->code[number][thread->next];
        bool holds = thread->registers[step->into] == step->value;
        thread->next = holds ? (uint8_t)(thread->next + 1) : (uint8_t)litmus->steps[number];
    }
}

/* Pushes a copy of the state, in which the thread has passed its next step. */
static struct state *push(struct search *search, const struct state *from, unsigned number)
{
    HF_CHECK(search->depth < STACK_MAX);
    struct state *to = &search->stack[search->depth++];
    *to = *from;
    to->threads[number].next++;
    return to;
}

/* Moves each pending seq_cst store that view->known covers into the common view. Must be called
 * with the view of a thread before each seq_cst operation of that thread. */
static void publish_seq_cst(struct state *state, const struct view *view)
{
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        for (unsigned k = 0; k < LOCATIONS_MAX; k++) {
            uint8_t place = state->pending[i][k];
            if (place != 0 && view->known[k] >= place) {
                state->pending[i][k] = 0;
                state->seq_cst[k] = place > state->seq_cst[k] ? place : state->seq_cst[k];
            }
        }
    }
}

static void read_message(struct state *state, struct thread *thread, const struct step *step,
                         unsigned place)
{
    const struct message *message = &state->messages[step->location][place];
    thread->registers[step->into] = message->value;
    thread->view.at[step->location] = (uint8_t)place;
    if (acquires(step->order)) {
        join(&thread->view, &message->carried);
    }
}

static void write_message(struct state *state, unsigned number, const struct step *step,
                          unsigned place, const struct message *read)
{
    struct thread *thread = &state->threads[number];
    unsigned location = step->location;
    struct view handed_on = {.at = {0}};
    int8_t value = step->value;
    if (read != NULL) {
        handed_on = read->carried;
        value = (int8_t)(value + (step->operation == ADD ? read->value : 0));
    }
    struct message *message = insert(state, location, place);
    thread->view.at[location] = (uint8_t)place;
    thread->view.known[location] = (uint8_t)place;
    message->value = value;
    message->attached = read != NULL;
    message->carried = handed_on;
    message->carried.at[location] = (uint8_t)place;
    if (releases(step->order)) {
        join(&message->carried, &thread->view);
    }
    if (step->order == SEQ_CST) {
        state->pending[number][location] = (uint8_t)place;
    }
}

/* Pushes every state that the thread's next step can lead to. */
static void advance(struct search *search, struct state *from, unsigned number)
{
    const struct litmus *litmus = search->litmus;
    const struct thread *thread = &from->threads[number];
    const struct step *step = &litmus->code[number][thread->next];
    unsigned location = step->location;
    unsigned count = from->count[location];
    unsigned first = thread->view.at[location];
    if (step->order == SEQ_CST) {
        publish_seq_cst(from, &thread->view);
        first = from->seq_cst[location] > first ? from->seq_cst[location] : first;
    }
    if (step->operation == LATEST) {
        struct state *to = push(search, from, number);
        to->threads[number].registers[step->into] = from->messages[location][count - 1].value;
        settle(litmus, to, number);
        return;
    }
    for (unsigned place = first; place < count; place++) {
        const struct message *read = &from->messages[location][place];
        bool room = place + 1 == count || !read[1].attached;
        int8_t expected = step->expected_register < REGISTERS_MAX
                              ? thread->registers[step->expected_register]
                              : step->expected;
        bool writes = step->operation != LOAD &&
                      (step->operation != CAS || read->value == expected);
        if (writes && !room) {
            continue;
        }
        struct state *to = push(search, from, number);
        if (step->operation != STORE) {
            read_message(to, &to->threads[number], step, place);
        }
        if (writes) {
            struct message before = *read; /* a copy, because insert() moves the messages */
            shift(&before.carried, location, place + 1);
            write_message(to, number, step, place + 1, step->operation == STORE ? NULL : &before);
        }
        settle(litmus, to, number);
    }
}

static bool outcome_is(const struct litmus *litmus, const struct state *state)
{
    bool is = true;
    for (unsigned i = 0; i < litmus->terms; i++) {
        const struct term *term = &litmus->forbidden[i];
        int8_t value = term->of_memory
                           ? state->messages[term->index][state->count[term->index] - 1].value
                           : state->threads[term->thread].registers[term->index];
        is = is && value == term->value;
    }
    return is;
}

static void begin(struct search *search)
{
    const struct litmus *litmus = search->litmus;
    struct state *state = &search->stack[search->depth++];
    memset(state, 0, sizeof(*state));
    for (unsigned i = 0; i < LOCATIONS_MAX; i++) {
        state->count[i] = 1;
        state->messages[i][0].value = litmus->first[i];
    }
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        memset(state->threads[i].registers, -1, sizeof(state->threads[i].registers));
    }
}

bool weak_reaches(const struct litmus *litmus, uint64_t *states)
{
    struct search search = {.litmus = litmus, .stack = calloc(STACK_MAX, sizeof(struct state))};
    bool found = false;
    HF_CHECK(search.stack != NULL);
    *states = 0;
    begin(&search);
    while (search.depth > 0 && !found) {
        struct state state = search.stack[--search.depth];
        bool over = true;
        HF_CHECK(++*states < states_max);
        for (unsigned i = 0; i < litmus->threads; i++) {
            if (state.threads[i].next < litmus->steps[i]) {
                struct state from = state;
                over = false;
                advance(&search, &from, i);
            }
        }
        found = over && outcome_is(litmus, &state);
    }
    free(search.stack);
    return found;
}
