// process.h - what a program does first and last: standard streams, memory of JSON values.

#ifndef PCVR_PROCESS_H
#define PCVR_PROCESS_H

// Opens /dev/null for each of descriptors 0, 1 and 2 that the program was started
// without, so that no file it opens becomes its output; from here on a JSON value that
// finds no memory ends the program with status 1 instead of being taken for a bad text.
void pcvr_process_start(void);

// Flushes the standard output. Returns `status`, or 1 with a message where that was 0 and
// not all of the output could be written.
int pcvr_process_end(int status);

#endif
