/* A child works on its own, whatever the threads of its parent were doing at the fork. */
#include "mrc_program.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

static void *make_and_change(void *of) {
  struct program *p = (struct program *)of;
  const uint64_t id = 7;
  while (!stop) {
    struct mrc_context *other = mrc_create_context(p->verbs, NULL);
    struct mrc_ctl_cc_profile_attr attr;
    memset(&attr, 0, sizeof attr);
    mrc_ctl_query_cc_profile(p->mrc, id, &attr, 0);
    NEED(other != NULL && mrc_destroy_context(other) == 0);
  }
  return NULL;
}

static int child_works(struct program *p) {
  struct program own;
  alarm(20); /* instead of a hang */
  mrc_destroy_context(p->mrc);
  begin(&own);
  return 0;
}

int main(void) {
  struct program p;
  pthread_t threads[2];
  begin(&p);
  for (int i = 0; i < 2; ++i) NEED(pthread_create(&threads[i], NULL, make_and_change, &p) == 0);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    int status = -1;
    if (child == 0) _exit(child_works(&p));
    NEED(waitpid(child, &status, 0) == child);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) NEED(pthread_join(threads[i], NULL) == 0);
  end(&p);
  puts("as expected");
  return 0;
}
