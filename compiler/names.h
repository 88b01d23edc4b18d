// names.h - a map from names to numbers, and the name a writer may have meant.

#ifndef PCVRC_NAMES_H
#define PCVRC_NAMES_H

#include "mem.h"

// All zero is an empty map. Names are compared by content and must outlive the map.
typedef struct NameMap {
    Arena *arena; // set before the first name_map_put
    struct NameSlot {
        const char *name;
        int value;
    } *slots;
    int n, cap;
} NameMap;

// The value of a name, -1 if it has none.
int name_map_get(const NameMap *m, const char *name);
// Sets it; value >= 0.
void name_map_put(NameMap *m, const char *name, int value);

#endif
