// axis.h - how axes of an operation's result stand to axes of its operands.

#ifndef PCVRC_AXIS_H
#define PCVRC_AXIS_H

#include "graph.h"

enum {
    AXIS_NONE = -1,    // the operand has no such axis: every index of the result reads all of it
    AXIS_BLOCKED = -2, // index r of the result does not come from index r of any operand's axis
};

// The axis of operand k whose index r is all that index r of `axis` of the result reads.
// AXIS_BLOCKED says so for the whole node, whatever the operand.
int64_t axis_of_operand(const Node *n, int k, int64_t axis);

#endif
