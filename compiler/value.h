// value.h - values of compile-time evaluation, and the scopes that hold them.
//
// A Value is small and passed by value; what it points at is never changed after it was
// made (a layer while its members are elaborated is the one exception) and lives in
// mem->perm.

#ifndef PCVRC_VALUE_H
#define PCVRC_VALUE_H

#include <jansson.h>

#include "graph.h"
#include "program.h"
#include "schema.h"

typedef enum ValueKind {
    V_ERROR, // what a fault leaves behind; operations on it are silent
    V_INT,
    V_FLOAT,
    V_BOOL,
    V_STR,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_FN,      // a function: declared, a method, or written with =>
    V_BUILTIN, // a function the language has
    V_DECL,    // a layer or block that waits for its arguments
    V_LAYER,   // an instance
    V_INIT,    // an initial value of a parameter
    V_OBJECT,  // schema, a field, a sequence, user, item
    V_PARAM,   // a parameter of a layer; a tensor once it has its name
    V_TENSOR,
    V_MASK,  // part of an attention predicate under construction
    V_ABSENT // a member whose condition is false
} ValueKind;

typedef enum ObjectKind {
    OBJ_SCHEMA,
    OBJ_FIELD,
    OBJ_DOMAIN,
    OBJ_USER,
    OBJ_ITEM
} ObjectKind;

typedef struct Value Value;
typedef struct Env Env;
typedef struct Layer Layer;
typedef struct List List;
typedef struct Dict Dict;

typedef struct Fn {
    const Ast *ast;   // AST_FN or AST_LAMBDA
    Env *env;         // where it was made; NULL at file level
    const char *name; // for messages
} Fn;

// A parameter of a layer instance. Its name and index are known when the model is
// complete.
typedef struct LayerParam {
    Param p;
    int index; // in the graph, -1 before
} LayerParam;

struct Value {
    ValueKind kind;
    union {
        int64_t i; // int; bool: 0 or 1
        double f;
        const char *s;
        const List *list; // list, tuple
        const Dict *dict;
        const Fn *fn;
        const Builtin *builtin;
        const Decl *decl;
        Layer *layer;
        struct {
            InitKind kind;
            double x;
        } init;
        struct {
            ObjectKind kind;
            int domain;
            const SchemaFeature *field;
        } object;
        LayerParam *param;
        Node *node;
        struct {
            const Mask *mask;
            int size; // nodes of the mask written out as a tree
            bool is_bool;
        } mask;
    };
};

struct List {
    int n;
    Value *v;
};

// Pairs in the order of their keys' first appearance; keys are strings or integers.
struct Dict {
    int n;
    Value *keys, *v;
};

typedef struct Binding {
    const char *name; // interned
    Value v;
    bool var; // made by `var`
} Binding;

// A scope. Within one, the latest binding of a name counts.
struct Env {
    Env *outer;
    Array(Binding) names;
    Layer *self; // the layer whose members these are, or NULL
};

// What a layer holds under a name: a parameter or another layer.
typedef struct Slot {
    const char *path; // "weight", "embeddings.0"
    bool plain;       // a parameter without keys: listed before all others
    Layer *layer;
    LayerParam *param;
} Slot;

struct Layer {
    const Ast *ast;   // AST_LAYER, AST_BLOCK or AST_MODEL; NULL for Sequential
    const char *kind; // "Linear", for messages
    Env *env;         // arguments, lets, members, methods
    const char
        *name; // full name; NULL until the model is complete or when no member holds it
    bool held; // some member holds it
    int n_calls;
    Array(Slot) slots; // in order of elaboration
    const List *chain; // what Sequential chains
};

Value value_int(int64_t i);
Value value_float(double f);
Value value_bool(bool b);
Value value_str(const char *s);
Value value_node(Node *n); // V_ERROR for NULL
// n values are copied.
Value value_list(Mem *mem, const Value *v, int n);
Value value_tuple(Mem *mem, const Value *v, int n);

bool value_is_number(Value v); // int or float
// The double of an int or a float.
double value_number(Value v);
// Deep equality; an int equals the float of the same value; functions and layers by
// identity.
bool value_equal(Value a, Value b);
// The value of a key, NULL if there is none.
const Value *dict_find(const Dict *d, Value key);

// "an integer", "a list", "f32[3, 4]": the kind in words, a tensor with its shape.
const char *value_what(Mem *mem, Value v);
// The value as it would be written; what str() gives (strings without quotes at the top).
const char *value_text(Mem *mem, Value v);
// The shortest text that reads back as the same double, with a point or an exponent.
const char *float_text(Mem *mem, double f);

// JSON of ints, floats, booleans, strings, lists, tuples, dictionaries; NULL for
// others. Not finite numbers are strings.
json_t *value_to_json(Value v);
// V_ERROR for null and for numbers that do not fit.
Value value_from_json(Mem *mem, const json_t *j);

// Brings v to a compile-time type (int, float, bool, str, lists and dictionaries of
// them; an int where a float is wanted is converted). false when it is something else;
// v is unchanged then.
bool value_coerce(Mem *mem, const Ast *type, Value *v);
// The type as written: "{str: [int]}".
const char *type_text(Mem *mem, const Ast *type);

Env *env_new(Mem *mem, Env *outer);
void env_define(Mem *mem, Env *env, const char *name, Value v);
// The innermost binding of a name, NULL if there is none.
Binding *env_find(Env *env, const char *name);

#endif
