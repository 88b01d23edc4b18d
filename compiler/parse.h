// parse.h - what lexer, grammar and tree construction share; nobody else needs it.

#ifndef PCVRC_PARSE_H
#define PCVRC_PARSE_H

#include "ast.h"

enum { MAX_DEPTH = 1000 }; // nesting of a tree: later stages walk it by recursion

typedef struct Token {
    int code; // TK_… of parser.h, 0 at the end, -1 after a reported fault
    Place place;
} Token;

typedef Array(Ast *) AstList;

typedef struct Parser {
    Mem *mem;
    Diag *diag;
    uint32_t file;
    const char *text, *cursor; // the source and the next byte to read
    Ast *root;                 // the result
    Token last;                // the token before the one being parsed
    Array(Token) open;         // brackets not closed yet
    bool stopped;              // a syntax error was reported: the parse ends
    bool too_deep;             // reported already
} Parser;

// lexer.re: the next token.
Token lexer_next(Parser *ps);

// parse.c: called by lexer and grammar. lex_token moves the cursor to the token's end;
// lex_fault reports, and gives a token with code -1.
Token lex_token(Parser *ps, int code, const char *start, const char *end);
Token lex_fault(Parser *ps, Place p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void parse_unexpected(Parser *ps, const void *parser, Token found);

// parser.y, made by lemon.
void *pcvrc_parseAlloc(void *(*allocate)(size_t));
void pcvrc_parse(void *parser, int code, Token t, Parser *ps);
void pcvrc_parseFree(void *parser, void (*release)(void *));
// Whether a token could stand next.
bool parser_could_stand(const void *parser, int token);

// ast.c: construction, one function for each form of the grammar; kids in the order of
// ast.h.
AstList *list_new(Parser *ps, Ast *first); // first NULL: an empty list
AstList *list_add(Parser *ps, AstList *l, Ast *a);
const char *token_text(const Parser *ps, Token t); // interned; a string unquoted

Ast *ast_node(Parser *ps, AstKind k, Token from, Place to, int n, ...);
Ast *ast_named(Parser *ps, AstKind k, Token from, Place to, Token name, int n, ...);
Ast *ast_list(Parser *ps, AstKind k, Token from, Token to, const AstList *l);
Ast *ast_pair(Parser *ps, AstKind k, Ast *left, Ast *right);

Ast *ast_file(Parser *ps, const AstList *decls);
Ast *ast_import(Parser *ps, Token from, Token path);
Ast *ast_config(Parser *ps, Token from, Ast *path, Ast *type, Ast *value, Ast *allowed);
Ast *ast_setting(Parser *ps, Ast *path, Ast *value);
Ast *ast_path(Parser *ps, Ast *left, Token name); // left NULL: the first name
Ast *ast_param(Parser *ps, Token name, Ast *type, Ast *value);
Ast *ast_parameter(Parser *ps, Token from, Token name, const AstList *keys, Ast *type,
                   Ast *value, const AstList *marks, const AstList *fors);
Ast *ast_member(Parser *ps, Token name, const AstList *keys, Ast *value,
                const AstList *fors);
Ast *ast_mark(Parser *ps, Token name, const AstList *args, Token to);
Ast *ast_type(Parser *ps, Token name, const AstList *extents, Token to);
Ast *ast_type_tuple(Parser *ps, Token from, const AstList *types, Token to);

Ast *ast_if(Parser *ps, AstKind k, Token from, Ast *cond, Ast *yes, Ast *no);
Ast *ast_name(Parser *ps, Token t);
Ast *ast_literal(Parser *ps, AstKind k, Token t);
Ast *ast_unary(Parser *ps, AstOper op, Token o, Ast *x);
Ast *ast_binary(Parser *ps, AstOper op, Ast *l, Ast *r);
Ast *ast_range(Parser *ps, Ast *lo, Ast *hi, Token op, bool closed); // hi NULL: open
Ast *ast_lambda(Parser *ps, Ast *params, Ast *body); // params: what stands before "=>"
Ast *ast_postfix(Parser *ps, AstKind k, Ast *x, Token name);
Ast *ast_apply(Parser *ps, AstKind k, Ast *x, const AstList *args, Token end);
Ast *ast_slice(Parser *ps, Ast *from, Token colon, Ast *to);
Ast *ast_tuple(Parser *ps, const AstList *l); // of one element: that element
Ast *ast_paren(Parser *ps, Token from, const AstList *l, Token to);
Ast *ast_comp(Parser *ps, AstKind k, Token from, Ast *value, const AstList *clauses,
              Token to);

#endif
