// process.c - standard streams that are open, JSON values that have their memory.

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Jansson returns NULL for a value without memory as for one that is wrong.
static void *
json_memory(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p) {
        fprintf(stderr, "%s: out of memory (%zu bytes more were needed)\n",
                program_invocation_short_name, n);
        exit(1);
    }
    return p;
}

void
pcvr_process_start(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
    json_set_alloc_funcs(json_memory, free);
}

int
pcvr_process_end(int status)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && !status) {
        fprintf(stderr, "%s: error: cannot write the output: %s\n",
                program_invocation_short_name, strerror(errno));
        return 1;
    }
    return status;
}
