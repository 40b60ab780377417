/* Threads that share the tasks of one job, made for it and gone after it: nothing survives a fork or has to be shut
 * down. The caller works too, and waits only for tasks that others have begun, never for a thread that has not got
 * a core yet: on a busy machine that would take longer than doing its part.
 */
#ifndef OFEDIQ_THREADS_H
#define OFEDIQ_THREADS_H

#include <pthread.h>
#include <stdlib.h>

struct pool {
    void (*task)(void *job, int worker, int task);
    void *job;
    int count, next, done, workers, members; /* tasks in all, begun, done; who began one; who still looks here */
    pthread_mutex_t lock;
    pthread_cond_t finished;
};

/* Takes tasks until none is left; `job` is touched only between begin and end of a task. */
static void work(struct pool *pool) {
    int worker = -1;
    pthread_mutex_lock(&pool->lock);
    while (pool->next < pool->count) {
        int task = pool->next++;
        if (worker < 0) worker = pool->workers++;
        pthread_mutex_unlock(&pool->lock);
        pool->task(pool->job, worker, task);
        pthread_mutex_lock(&pool->lock);
        if (++pool->done == pool->count) pthread_cond_signal(&pool->finished);
    }
}

/* Ends a membership, with the lock held; the last one clears away. */
static void leave(struct pool *pool) {
    int last = --pool->members == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!last) return;
    pthread_cond_destroy(&pool->finished);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static void *help(void *argument) {
    work(argument);
    leave(argument);
    return NULL;
}

/* task(job, worker, 0 .. count), worker < threads. Where no thread can be made, the caller does all. */
static void run_tasks(void (*task)(void *, int, int), void *job, int count, int threads) {
    struct pool *pool = threads > 1 ? malloc(sizeof *pool) : NULL;
    if (!pool) {
        for (int n = 0; n < count; n++) task(job, 0, n);
        return;
    }
    *pool = (struct pool){.task = task, .job = job, .count = count, .members = 1};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->finished, NULL);
    for (int n = 1; n < threads; n++) {
        pthread_t thread;
        pthread_mutex_lock(&pool->lock);
        int failed = pthread_create(&thread, NULL, help, pool);
        pool->members += !failed;
        pthread_mutex_unlock(&pool->lock);
        if (failed) break;
        pthread_detach(thread);
    }
    work(pool);
    while (pool->done < pool->count) pthread_cond_wait(&pool->finished, &pool->lock);
    leave(pool);
}

#endif
