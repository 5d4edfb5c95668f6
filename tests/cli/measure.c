/* tests/cli/measure.c - runs a command and writes the most memory it had resident, measured
 * from outside: "measure FILE CMD ARG..." writes its bytes to FILE and ends as CMD ended.
 * Small, because a child begins with the pages of the process that makes it. */
#define _DEFAULT_SOURCE /* wait4 */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 125;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status = 0;
    struct rusage use = {0};
    while (wait4(pid, &status, 0, &use) < 0)
        if (errno != EINTR)
            return 125;
    FILE *f = fopen(argv[1], "w");
    if (f == NULL || fprintf(f, "%ld\n", use.ru_maxrss * 1024L) < 0 || fclose(f) != 0)
        return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
