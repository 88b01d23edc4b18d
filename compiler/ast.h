// ast.h - the syntax tree.
//
// Every node has a kind, a place, and kids. A kid written "|NULL" below may be NULL;
// "..." stands for any number of kids to the end. `text` is interned (compare pointers
// made by mem_intern), and is a whole dotted path where the table says so. The tree is
// never changed after parsing.

#ifndef PCVRC_AST_H
#define PCVRC_AST_H

#include "source.h"

typedef enum AstKind {
    // Files and declarations.
    //                   text              kids
    AST_FILE,         // -                 declaration...
    AST_IMPORT,       // the path written  -
    AST_CONFIG,       // dotted name       type, default, allowed|NULL
                      //                   allowed: AST_RANGE (its high end NULL for "1..")
                      //                   or an expression that gives a list
    AST_LET,          // -                 pattern, value
    AST_ASSERT,       // -                 condition, message
    AST_FN,           // name              AST_PARAMS, type|NULL, body
                      //                   body: AST_BODY for { }, else what follows "="
                      //                   The member "forward" is an AST_FN named "forward".
    AST_LAYER,        // name              AST_PARAMS, AST_MEMBERS
    AST_BLOCK,        // name              AST_PARAMS, AST_MEMBERS
    AST_MODEL,        // name              AST_MEMBERS
    AST_TRAIN,        // -                 AST_SETTING...
    AST_SETTING,      // dotted key        value

    AST_PARAMS,       // -                 AST_PARAM...
    AST_PARAM,        // name              type|NULL, default|NULL

    // Members.
    AST_MEMBERS,      // -                 member...  (also AST_LET, AST_ASSERT, AST_FN)
    AST_PARAMETER,    // name              AST_KEYS, type, initial value, AST_MARKS,
                      //                   AST_FOR...
    AST_MEMBER,       // name              AST_KEYS, value, AST_FOR...
    AST_MEMBER_IF,    // -                 condition, AST_MEMBERS, AST_MEMBERS|NULL
                      //                   "else if" is an else of one AST_MEMBER_IF
    AST_KEYS,         // -                 key...   (empty for a plain member)
    AST_MARKS,        // -                 AST_MARK...
    AST_MARK,         // name              argument...  (plain or AST_ARG)

    // Statements.
    AST_BODY,         // -                 statement...  (also AST_LET, AST_ASSERT, AST_FN)
    AST_VAR,          // -                 pattern, value
    AST_ASSIGN,       // -                 pattern (a name or a flat tuple), value
    AST_RETURN,       // -                 value
    AST_FOR_STMT,     // -                 pattern, list, AST_BODY
    AST_IF_STMT,      // -                 condition, AST_BODY, AST_BODY|NULL

    // Patterns: AST_NAME, or AST_TUPLE of patterns. "let a, b = x, y" has a tuple on
    // both sides.

    // Clauses of members and comprehensions.
    AST_FOR,          // -                 pattern, list
    AST_FILTER,       // -                 condition

    // Types.
    AST_TYPE,         // name              extent...   `i` is 1 when brackets are written
                      //                   an extent "_" is AST_NAME "_"
    AST_TYPE_LIST,    // -                 element type
    AST_TYPE_TUPLE,   // -                 type, type...  (of one type it is that type)
    AST_TYPE_DICT,    // -                 key type, value type

    // Expressions.
    AST_INT,          // as written        -           `i` is the value
    AST_FLOAT,        // as written        -           `f` is the value
    AST_STRING,       // its contents      -
    AST_BOOL,         // -                 -           `i` is 0 or 1
    AST_NAME,         // name              -
    AST_TUPLE,        // -                 value, value...
    AST_LIST,         // -                 value...
    AST_DICT,         // -                 AST_PAIR...
    AST_PAIR,         // -                 key, value
    AST_LIST_COMP,    // -                 value, AST_FOR, (AST_FOR | AST_FILTER)...
    AST_DICT_COMP,    // -                 AST_PAIR, AST_FOR, (AST_FOR | AST_FILTER)...
    AST_IF,           // -                 condition, then, else
    AST_LAMBDA,       // -                 AST_PARAMS, body (an expression)
    AST_UNARY,        // -                 operand     `op`: OPER_NEG, OPER_NOT
    AST_BINARY,       // -                 left, right `op`: the others; and, or too
    AST_RANGE,        // -                 low, high   `i` is 1 for "..="
    AST_TRANSPOSE,    // -                 value       x'
    AST_FIELD,        // field name        value       x.name
    AST_CALL,         // -                 callee, argument...  (plain or AST_ARG)
    AST_ARG,          // argument name     value       name = value
    AST_INDEX,        // -                 value, index...   an index: expression, AST_SLICE
    AST_SLICE,        // -                 from|NULL, to|NULL
    AST_N_KINDS
} AstKind;

typedef enum AstOper {
    OPER_NONE,
    OPER_NEG,
    OPER_NOT,
    OPER_ADD,
    OPER_SUB,
    OPER_MUL,
    OPER_DIV,
    OPER_FLOORDIV,
    OPER_MOD,
    OPER_MATMUL,
    OPER_POW,
    OPER_EQ,
    OPER_NE,
    OPER_LT,
    OPER_LE,
    OPER_GT,
    OPER_GE,
    OPER_AND,
    OPER_OR
} AstOper;

typedef struct Ast Ast;
struct Ast {
    AstKind kind;
    AstOper op;
    Place place;      // the whole construct
    Place name_place; // where `text` stands, for kinds that have one
    const char *text;
    int64_t i;
    double f;
    bool grouped; // stands in parentheses
    int depth;  // levels of the tree below and including this node
    int n;      // number of kids
    Ast **kids; // NULL when n is 0
};

// The kind in words, for messages: "a comprehension", "'layer'".
const char *ast_kind_name(AstKind k);
// The operator as written: "+", "and".
const char *ast_oper_text(AstOper op);
// The name of a kind in a dump: "list-comp".
const char *ast_kind_tag(AstKind k);

// Writes a tree as indented text, stable for comparison: one node a line, "(kind text
// op" first.
void ast_print(const Ast *a, FILE *to);

// Parses source file `file` of d. NULL when it has a syntax error (reported; it ends
// the parse).
Ast *parse_file(Mem *mem, Diag *d, uint32_t file);
// Parses one expression, as written after --set NAME= or in a test; the same errors.
Ast *parse_expr(Mem *mem, Diag *d, uint32_t file);

#endif
