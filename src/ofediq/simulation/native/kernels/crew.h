/* Threads that share the tasks of one job, made for it and gone after it: nothing survives a fork or has to be shut
 * down. The caller works too, and waits only for tasks that others have begun, never for a thread that has not got
 * a core yet: on a busy machine that would take longer than doing its part.
 */
#ifndef OFEDIQ_CREW_H
#define OFEDIQ_CREW_H

#include <pthread.h>
#include <stdlib.h>

struct crew {
    void (*task)(void *job, int worker, int task);
    void *job;
    int count, next, done, workers, members; /* tasks in all, begun, done; who began one; who still looks here */
    pthread_mutex_t lock;
    pthread_cond_t finished;
};

/* Takes tasks until none is left; `job` is touched only between begin and end of a task. */
static void work(struct crew *crew) {
    int worker = -1;
    pthread_mutex_lock(&crew->lock);
    while (crew->next < crew->count) {
        int task = crew->next++;
        if (worker < 0) worker = crew->workers++;
        pthread_mutex_unlock(&crew->lock);
        crew->task(crew->job, worker, task);
        pthread_mutex_lock(&crew->lock);
        if (++crew->done == crew->count) pthread_cond_signal(&crew->finished);
    }
}

/* Ends a membership, with the lock held; the last one clears away. */
static void leave(struct crew *crew) {
    int last = --crew->members == 0;
    pthread_mutex_unlock(&crew->lock);
    if (!last) return;
    pthread_cond_destroy(&crew->finished);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

static void *help(void *argument) {
    work(argument);
    leave(argument);
    return NULL;
}

/* task(job, worker, 0 .. count), worker < threads. Where no thread can be made, the caller does all. */
static void run_tasks(void (*task)(void *, int, int), void *job, int count, int threads) {
    struct crew *crew = threads > 1 ? malloc(sizeof *crew) : NULL;
    if (!crew) {
        for (int n = 0; n < count; n++) task(job, 0, n);
        return;
    }
    *crew = (struct crew){.task = task, .job = job, .count = count, .members = 1};
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->finished, NULL);
    for (int n = 1; n < threads; n++) {
        pthread_t thread;
        pthread_mutex_lock(&crew->lock);
        int failed = pthread_create(&thread, NULL, help, crew);
        crew->members += !failed;
        pthread_mutex_unlock(&crew->lock);
        if (failed) break;
        pthread_detach(thread);
    }
    work(crew);
    while (crew->done < crew->count) pthread_cond_wait(&crew->finished, &crew->lock);
    leave(crew);
}

#endif
