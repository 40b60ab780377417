/* Threads that share the tasks of a job. They are made when first wanted, and wait for the next job: a window of a
 * small model is shorter than it takes to make one. A forked child has none of its parent's, and makes its own.
 *
 * The caller works too, and waits only for tasks that others have begun, never for a thread that has not got a core
 * yet: on a busy machine that would take longer than doing its part.
 */
#ifndef OFEDIQ_THREADS_H
#define OFEDIQ_THREADS_H

#include <pthread.h>
#include <signal.h>

struct job {
    void (*task)(void *work, int worker, int task);
    void *work;
    int count, begun, done; /* tasks */
    int workers, most;      /* who began one, and how many may */
    struct job *next;
};

static struct {
    pthread_mutex_t lock; /* of everything here, and of every job */
    pthread_cond_t wanted, finished;
    struct job *jobs;
    int helpers;
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER, .wanted = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};

/* Takes tasks until none is left, with the lock held between them. */
static void work_on(struct job *job) {
    int worker = job->workers++;
    while (job->begun < job->count) {
        int task = job->begun++;
        pthread_mutex_unlock(&crew.lock);
        job->task(job->work, worker, task);
        pthread_mutex_lock(&crew.lock);
        if (++job->done == job->count) pthread_cond_broadcast(&crew.finished);
    }
}

static void *help(void *nothing) {
    (void)nothing;
    pthread_mutex_lock(&crew.lock);
    for (;;) {
        struct job *job = crew.jobs;
        while (job && (job->begun == job->count || job->workers == job->most)) job = job->next;
        if (job)
            work_on(job);
        else
            pthread_cond_wait(&crew.wanted, &crew.lock);
    }
    return NULL;
}

static void before_fork(void) { pthread_mutex_lock(&crew.lock); }
static void after_fork(void) { pthread_mutex_unlock(&crew.lock); }

static void in_child(void) {
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.wanted, NULL);
    pthread_cond_init(&crew.finished, NULL);
    crew.jobs = NULL;
    crew.helpers = 0;
}

__attribute__((constructor)) static void prepare_for_forks(void) {
    pthread_atfork(before_fork, after_fork, in_child);
}

/* As many helpers as asked for, if the system gives them; with the lock held. They leave signals to others. */
static void have_helpers(int count) {
    if (crew.helpers >= count) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; crew.helpers < count; crew.helpers++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, help, NULL)) break;
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* task(work, worker, 0 .. count), worker < threads. Where no thread can be made, the caller does all. */
static void run_tasks(void (*task)(void *, int, int), void *work, int count, int threads) {
    if (threads < 2 || count < 2) {
        for (int n = 0; n < count; n++) task(work, 0, n);
        return;
    }
    struct job job = {.task = task, .work = work, .count = count, .most = threads};
    pthread_mutex_lock(&crew.lock);
    have_helpers(threads - 1);
    job.next = crew.jobs;
    crew.jobs = &job;
    if (threads == 2)
        pthread_cond_signal(&crew.wanted);
    else
        pthread_cond_broadcast(&crew.wanted);
    work_on(&job);
    while (job.done < job.count) pthread_cond_wait(&crew.finished, &crew.lock);
    struct job **at = &crew.jobs;
    while (*at != &job) at = &(*at)->next;
    *at = job.next;
    pthread_mutex_unlock(&crew.lock);
}

#endif
