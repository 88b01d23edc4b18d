// parser.y - the grammar of the language.

%include {
// What lemon's own text is not clean of.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"

#include "parse.h"

#include <assert.h>
#include <stdlib.h>

// A syntax error ends the parse, so nothing is ever resumed.
#define YYNOERRORRECOVERY
}

// The functions are pcvrc_parse(), pcvrc_parseAlloc(), pcvrc_parseFree().
%name pcvrc_parse

// Names start with TK_ in parser.h; a token carries its code and place, everything else
// a tree.
%token_prefix TK_
%token_type {Token}
%default_type {Ast *}
%extra_argument {Parser *ps}
// The parser's stack grows as needed.
%stack_size 0
%start_symbol start

// From low to high; postfix forms bind strongest because they are rules of their own.
%right    ELSE ARROW.
%nonassoc RANGE RANGE_TO.
%left     OR.
%left     AND.
%right    NOT.
%nonassoc EQ NE LT LE GT GE.
%left     PLUS MINUS.
%left     STAR SLASH FLOORDIV PERCENT AT.
%right    NEG.
%right    POW.

%syntax_error {
    parse_unexpected(ps, yypParser, TOKEN);
}
%stack_overflow {
    lex_fault(ps, ps->last.place, "nested too deeply for the memory there is");
}

start ::= file(F).              { ps->root = F; }
start ::= EXPR_START expr(E).   { ps->root = E; }   // fed first to parse one expression

// ---- declarations -------------------------------------------------------------------

file(A) ::= decls(L).                           { A = ast_file(ps, L); }
%type decls {AstList *}
decls(A) ::= .                                  { A = list_new(ps, NULL); }
decls(A) ::= decls(L) decl(D).                  { A = list_add(ps, L, D); }

decl(A) ::= IMPORT(I) STRING(S).                { A = ast_import(ps, I, S); }
decl(A) ::= CONFIG(C) path(P) COLON type(T) ASSIGN expr(E) allowed(R).
                                                { A = ast_config(ps, C, P, T, E, R); }
decl(A) ::= let(D).                             { A = D; }
decl(A) ::= assert(D).                          { A = D; }
decl(A) ::= fn(D).                              { A = D; }
decl(A) ::= LAYER(L) NAME(N) params(P) members(M).
        { A = ast_named(ps, AST_LAYER, L, M->place, N, 2, P, M); }
decl(A) ::= BLOCK(B) NAME(N) params(P) members(M).
        { A = ast_named(ps, AST_BLOCK, B, M->place, N, 2, P, M); }
decl(A) ::= MODEL(B) NAME(N) members(M).
        { A = ast_named(ps, AST_MODEL, B, M->place, N, 1, M); }
decl(A) ::= TRAIN(T) LBRACE settings(L) RBRACE(R).
                                                { A = ast_list(ps, AST_TRAIN, T, R, L); }

allowed(A) ::= .                                { A = NULL; }
allowed(A) ::= IN expr(E).                      { A = E; }
allowed(A) ::= IN expr(E) RANGE(R).             { A = ast_range(ps, E, NULL, R, false); }

%type settings {AstList *}
settings(A) ::= .                               { A = list_new(ps, NULL); }
settings(A) ::= settings(L) path(P) ASSIGN expr(E).
        { A = list_add(ps, L, ast_setting(ps, P, E)); }

path(A) ::= NAME(N).                            { A = ast_path(ps, NULL, N); }
path(A) ::= path(P) DOT NAME(N).                { A = ast_path(ps, P, N); }

let(A) ::= LET(L) pattern(P) ASSIGN values(V).
        { A = ast_node(ps, AST_LET, L, V->place, 2, P, V); }
assert(A) ::= ASSERT(S) expr(C) COMMA expr(M).
        { A = ast_node(ps, AST_ASSERT, S, M->place, 2, C, M); }
fn(A) ::= FN(F) NAME(N) params(P) result(R) body(B).
        { A = ast_named(ps, AST_FN, F, B->place, N, 3, P, R, B); }
fn(A) ::= FORWARD(F) params(P) result(R) body(B).
        { A = ast_named(ps, AST_FN, F, B->place, F, 3, P, R, B); }
result(A) ::= .                                 { A = NULL; }
result(A) ::= GIVES type(T).                    { A = T; }
body(A) ::= ASSIGN expr(E).                     { A = E; }
body(A) ::= block(B).                           { A = B; }

params(A) ::= LPAREN(L) RPAREN(R).
        { A = ast_list(ps, AST_PARAMS, L, R, NULL); }
params(A) ::= LPAREN(L) param_list(P) RPAREN(R).
                                                { A = ast_list(ps, AST_PARAMS, L, R, P); }
%type param_list {AstList *}
param_list(A) ::= param(P).                     { A = list_new(ps, P); }
param_list(A) ::= param_list(L) COMMA param(P). { A = list_add(ps, L, P); }
param(A) ::= NAME(N) opt_type(T) opt_value(V).  { A = ast_param(ps, N, T, V); }
opt_type(A) ::= .                               { A = NULL; }
opt_type(A) ::= COLON type(T).                  { A = T; }
opt_value(A) ::= .                              { A = NULL; }
opt_value(A) ::= ASSIGN expr(E).                { A = E; }

type(A) ::= NAME(N).                            { A = ast_type(ps, N, NULL, N); }
type(A) ::= NAME(N) LBRACKET exprs(L) RBRACKET(R).
                                                { A = ast_type(ps, N, L, R); }
type(A) ::= LBRACKET(L) type(T) RBRACKET(R).
        { A = ast_node(ps, AST_TYPE_LIST, L, R.place, 1, T); }
type(A) ::= LPAREN(L) types(T) RPAREN(R).       { A = ast_type_tuple(ps, L, T, R); }
type(A) ::= LBRACE(L) type(K) COLON type(V) RBRACE(R).
        { A = ast_node(ps, AST_TYPE_DICT, L, R.place, 2, K, V); }
%type types {AstList *}
types(A) ::= type(T).                           { A = list_new(ps, T); }
types(A) ::= types(L) COMMA type(T).            { A = list_add(ps, L, T); }

pattern(A) ::= pats(L).                         { A = ast_tuple(ps, L); }
%type pats {AstList *}
pats(A) ::= pat(P).                             { A = list_new(ps, P); }
pats(A) ::= pats(L) COMMA pat(P).               { A = list_add(ps, L, P); }
pat(A) ::= NAME(N).                             { A = ast_name(ps, N); }
pat(A) ::= LPAREN(L) pats(P) RPAREN(R).         { A = ast_paren(ps, L, P, R); }

// ---- members ------------------------------------------------------------------------

members(A) ::= LBRACE(L) member_list(M) RBRACE(R).
        { A = ast_list(ps, AST_MEMBERS, L, R, M); }
%type member_list {AstList *}
member_list(A) ::= .                            { A = list_new(ps, NULL); }
member_list(A) ::= member_list(L) member(M).    { A = list_add(ps, L, M); }

member(A) ::= let(M).                           { A = M; }
member(A) ::= assert(M).                        { A = M; }
member(A) ::= fn(M).                            { A = M; }
member(A) ::= PARAM(P) NAME(N) keys(K) COLON type(T) ASSIGN expr(V) marks(M) fors(F).
        { A = ast_parameter(ps, P, N, K, T, V, M, F); }
member(A) ::= NAME(N) keys(K) COLON expr(V) fors(F).
                                                { A = ast_member(ps, N, K, V, F); }
member(A) ::= member_if(M).                     { A = M; }
member_if(A) ::= IF(I) expr(C) members(Y).
        { A = ast_if(ps, AST_MEMBER_IF, I, C, Y, NULL); }
member_if(A) ::= IF(I) expr(C) members(Y) ELSE members(N).
        { A = ast_if(ps, AST_MEMBER_IF, I, C, Y, N); }
member_if(A) ::= IF(I) expr(C) members(Y) ELSE member_if(N).
        { A = ast_if(ps, AST_MEMBER_IF, I, C, Y, N); }

%type keys {AstList *}
keys(A) ::= .                                   { A = list_new(ps, NULL); }
keys(A) ::= keys(L) LBRACKET expr(E) RBRACKET.  { A = list_add(ps, L, E); }
%type marks {AstList *}
marks(A) ::= .                                  { A = list_new(ps, NULL); }
marks(A) ::= WITH mark_list(L).                 { A = L; }
%type mark_list {AstList *}
mark_list(A) ::= mark(M).                       { A = list_new(ps, M); }
mark_list(A) ::= mark_list(L) COMMA mark(M).    { A = list_add(ps, L, M); }
mark(A) ::= NAME(N).                            { A = ast_mark(ps, N, NULL, N); }
mark(A) ::= NAME(N) LPAREN args(L) RPAREN(R).   { A = ast_mark(ps, N, L, R); }
%type fors {AstList *}
fors(A) ::= .                                   { A = list_new(ps, NULL); }
fors(A) ::= fors(L) for(F).                     { A = list_add(ps, L, F); }
for(A) ::= FOR(F) pattern(P) IN expr(E).
        { A = ast_node(ps, AST_FOR, F, E->place, 2, P, E); }

// ---- statements ---------------------------------------------------------------------

block(A) ::= LBRACE(L) stmts(S) RBRACE(R).      { A = ast_list(ps, AST_BODY, L, R, S); }
%type stmts {AstList *}
stmts(A) ::= .                                  { A = list_new(ps, NULL); }
stmts(A) ::= stmts(L) stmt(S).                  { A = list_add(ps, L, S); }

stmt(A) ::= let(S).                             { A = S; }
stmt(A) ::= assert(S).                          { A = S; }
stmt(A) ::= fn(S).                              { A = S; }
stmt(A) ::= VAR(T) pattern(P) ASSIGN values(V).
        { A = ast_node(ps, AST_VAR, T, V->place, 2, P, V); }
stmt(A) ::= targets(T) ASSIGN values(V).
        { A = ast_pair(ps, AST_ASSIGN, ast_tuple(ps, T), V); }
stmt(A) ::= RETURN(R) values(V).
        { A = ast_node(ps, AST_RETURN, R, V->place, 1, V); }
stmt(A) ::= FOR(F) pattern(P) IN expr(E) block(B).
        { A = ast_node(ps, AST_FOR_STMT, F, B->place, 3, P, E, B); }
stmt(A) ::= stmt_if(S).                         { A = S; }
stmt_if(A) ::= IF(I) expr(C) block(Y).
        { A = ast_if(ps, AST_IF_STMT, I, C, Y, NULL); }
stmt_if(A) ::= IF(I) expr(C) block(Y) ELSE block(N).
        { A = ast_if(ps, AST_IF_STMT, I, C, Y, N); }
stmt_if(A) ::= IF(I) expr(C) block(Y) ELSE stmt_if(N).
        { A = ast_if(ps, AST_IF_STMT, I, C, Y, N); }
%type targets {AstList *}
targets(A) ::= NAME(N).                         { A = list_new(ps, ast_name(ps, N)); }
targets(A) ::= targets(L) COMMA NAME(N).        { A = list_add(ps, L, ast_name(ps, N)); }

// ---- expressions --------------------------------------------------------------------

values(A) ::= exprs(L).                         { A = ast_tuple(ps, L); }
%type exprs {AstList *}
exprs(A) ::= expr(E).                           { A = list_new(ps, E); }
exprs(A) ::= exprs(L) COMMA expr(E).            { A = list_add(ps, L, E); }

expr(A) ::= IF(I) expr(C) THEN expr(Y) ELSE expr(N).
                                                { A = ast_if(ps, AST_IF, I, C, Y, N); }
expr(A) ::= NAME(N) ARROW expr(B).
        { A = ast_lambda(ps, ast_name(ps, N), B); }
expr(A) ::= paren(P) ARROW expr(B).             { A = ast_lambda(ps, P, B); }
expr(A) ::= expr(L) RANGE(O) expr(R).           { A = ast_range(ps, L, R, O, false); }
expr(A) ::= expr(L) RANGE_TO(O) expr(R).        { A = ast_range(ps, L, R, O, true); }
expr(A) ::= expr(L) OR expr(R).                 { A = ast_binary(ps, OPER_OR, L, R); }
expr(A) ::= expr(L) AND expr(R).                { A = ast_binary(ps, OPER_AND, L, R); }
expr(A) ::= NOT(O) expr(X).                     { A = ast_unary(ps, OPER_NOT, O, X); }
expr(A) ::= expr(L) EQ expr(R).                 { A = ast_binary(ps, OPER_EQ, L, R); }
expr(A) ::= expr(L) NE expr(R).                 { A = ast_binary(ps, OPER_NE, L, R); }
expr(A) ::= expr(L) LT expr(R).                 { A = ast_binary(ps, OPER_LT, L, R); }
expr(A) ::= expr(L) LE expr(R).                 { A = ast_binary(ps, OPER_LE, L, R); }
expr(A) ::= expr(L) GT expr(R).                 { A = ast_binary(ps, OPER_GT, L, R); }
expr(A) ::= expr(L) GE expr(R).                 { A = ast_binary(ps, OPER_GE, L, R); }
expr(A) ::= expr(L) PLUS expr(R).               { A = ast_binary(ps, OPER_ADD, L, R); }
expr(A) ::= expr(L) MINUS expr(R).              { A = ast_binary(ps, OPER_SUB, L, R); }
expr(A) ::= expr(L) STAR expr(R).               { A = ast_binary(ps, OPER_MUL, L, R); }
expr(A) ::= expr(L) SLASH expr(R).              { A = ast_binary(ps, OPER_DIV, L, R); }
expr(A) ::= expr(L) FLOORDIV expr(R).
        { A = ast_binary(ps, OPER_FLOORDIV, L, R); }
expr(A) ::= expr(L) PERCENT expr(R).            { A = ast_binary(ps, OPER_MOD, L, R); }
expr(A) ::= expr(L) AT expr(R).                 { A = ast_binary(ps, OPER_MATMUL, L, R); }
expr(A) ::= MINUS(O) expr(X). [NEG]             { A = ast_unary(ps, OPER_NEG, O, X); }
expr(A) ::= expr(L) POW expr(R).                { A = ast_binary(ps, OPER_POW, L, R); }
expr(A) ::= postfix(X).                         { A = X; }

postfix(A) ::= primary(X).                      { A = X; }
postfix(A) ::= postfix(X) QUOTE(Q).
        { A = ast_postfix(ps, AST_TRANSPOSE, X, Q); }
postfix(A) ::= postfix(X) DOT NAME(N).          { A = ast_postfix(ps, AST_FIELD, X, N); }
postfix(A) ::= postfix(X) LPAREN args(L) RPAREN(R).
                                                { A = ast_apply(ps, AST_CALL, X, L, R); }
postfix(A) ::= postfix(X) LBRACKET indices(L) RBRACKET(R).
                                                { A = ast_apply(ps, AST_INDEX, X, L, R); }

// A comma list that may end in a comma, or be empty.
%type args {AstList *}
args(A) ::= .                                   { A = list_new(ps, NULL); }
args(A) ::= arg_list(L).                        { A = L; }
args(A) ::= arg_list(L) COMMA.                  { A = L; }
%type arg_list {AstList *}
arg_list(A) ::= arg(E).                         { A = list_new(ps, E); }
arg_list(A) ::= arg_list(L) COMMA arg(E).       { A = list_add(ps, L, E); }
arg(A) ::= expr(E).                             { A = E; }
arg(A) ::= NAME(N) ASSIGN expr(E).
        { A = ast_named(ps, AST_ARG, N, E->place, N, 1, E); }

%type indices {AstList *}
indices(A) ::= index(I).                        { A = list_new(ps, I); }
indices(A) ::= indices(L) COMMA index(I).       { A = list_add(ps, L, I); }
index(A) ::= expr(E).                           { A = E; }
index(A) ::= expr(F) COLON(C) expr(T).          { A = ast_slice(ps, F, C, T); }
index(A) ::= expr(F) COLON(C).                  { A = ast_slice(ps, F, C, NULL); }
index(A) ::= COLON(C) expr(T).                  { A = ast_slice(ps, NULL, C, T); }
index(A) ::= COLON(C).                          { A = ast_slice(ps, NULL, C, NULL); }

primary(A) ::= NAME(T).                         { A = ast_name(ps, T); }
primary(A) ::= INT(T).                          { A = ast_literal(ps, AST_INT, T); }
primary(A) ::= FLOAT(T).                        { A = ast_literal(ps, AST_FLOAT, T); }
primary(A) ::= STRING(T).                       { A = ast_literal(ps, AST_STRING, T); }
primary(A) ::= TRUE(T).                         { A = ast_literal(ps, AST_BOOL, T); }
primary(A) ::= FALSE(T).                        { A = ast_literal(ps, AST_BOOL, T); }
primary(A) ::= paren(P).                        { A = P; }
paren(A) ::= LPAREN(L) exprs(E) RPAREN(R).      { A = ast_paren(ps, L, E, R); }

primary(A) ::= LBRACKET(L) RBRACKET(R).
        { A = ast_list(ps, AST_LIST, L, R, NULL); }
primary(A) ::= LBRACKET(L) exprs(E) comma RBRACKET(R).
                                                { A = ast_list(ps, AST_LIST, L, R, E); }
primary(A) ::= LBRACKET(L) expr(E) clauses(C) RBRACKET(R).
        { A = ast_comp(ps, AST_LIST_COMP, L, E, C, R); }
primary(A) ::= LBRACE(L) RBRACE(R).
        { A = ast_list(ps, AST_DICT, L, R, NULL); }
primary(A) ::= LBRACE(L) pairs(P) comma RBRACE(R).
                                                { A = ast_list(ps, AST_DICT, L, R, P); }
primary(A) ::= LBRACE(L) pair(P) clauses(C) RBRACE(R).
        { A = ast_comp(ps, AST_DICT_COMP, L, P, C, R); }
%type comma {int}
comma(A) ::= .                                  { A = 0; }
comma(A) ::= COMMA.                             { A = 1; }
%type pairs {AstList *}
pairs(A) ::= pair(P).                           { A = list_new(ps, P); }
pairs(A) ::= pairs(L) COMMA pair(P).            { A = list_add(ps, L, P); }
pair(A) ::= expr(K) COLON expr(V).              { A = ast_pair(ps, AST_PAIR, K, V); }

%type clauses {AstList *}
clauses(A) ::= for(F).                          { A = list_new(ps, F); }
clauses(A) ::= clauses(L) for(F).               { A = list_add(ps, L, F); }
clauses(A) ::= clauses(L) IF(I) expr(E).
        { A = list_add(ps, L, ast_node(ps, AST_FILTER, I, E->place, 1, E)); }

// ---- expected tokens ----------------------------------------------------------------

%code {
// The action of a state for a token.
static YYACTIONTYPE
action_of(YYACTIONTYPE state, int token)
{
    if (state > YY_MAX_SHIFT)
        return state;
    int i = yy_shift_ofst[state] + token;
    return yy_lookahead[i] == token ? yy_action[i] : yy_default[state];
}

enum { MAX_TRIAL = 64 }; // states above the real stack; empty rules alone add any

// Plays the parser forward without touching it until the token is shifted or refused: a
// merged LALR state may allow a reduction after which the token is refused. The states
// are the lowest n_real of the parser's own, and `above` on top of them.
bool
parser_could_stand(const void *parser, int token)
{
    const yyParser *p = parser;
    YYACTIONTYPE above[MAX_TRIAL];
    int n_real = (int)(p->yytos - p->yystack) + 1, n = 0;
    while (n < MAX_TRIAL) {
        YYACTIONTYPE top = n ? above[n - 1] : p->yystack[n_real - 1].stateno;
        YYACTIONTYPE a = action_of(top, token);
        if (a < YY_MIN_REDUCE)
            return a <= YY_MAX_SHIFTREDUCE || a == YY_ACCEPT_ACTION;
        int rule = a - YY_MIN_REDUCE;
        int pop = -yyRuleInfoNRhs[rule];
        n_real -= pop > n ? pop - n : 0;
        n -= pop < n ? pop : n;
        top = n ? above[n - 1] : p->yystack[n_real - 1].stateno;
        above[n++] = yy_find_reduce_action(top, yyRuleInfoLhs[rule]);
        if (above[n - 1] == YY_ACCEPT_ACTION)
            return token == 0;
    }
    return true;
}
}
