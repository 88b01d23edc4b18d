// ast.c - building syntax trees, and printing them.

#include "parse.h"
#include "parser.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- nodes --------------------------------------------------------------------------

AstList *
list_new(Parser *ps, Ast *first)
{
    AstList *l = arena_new(&ps->mem->perm, AstList);
    return first ? list_add(ps, l, first) : l;
}

AstList *
list_add(Parser *ps, AstList *l, Ast *a)
{
    array_push(&ps->mem->perm, l, a);
    return l;
}

const char *
token_text(const Parser *ps, Token t)
{
    bool quoted = t.code == TK_STRING;
    return mem_intern(ps->mem, ps->text + t.place.offset + quoted,
                      t.place.length - 2 * quoted);
}

// Tells how deep a tree is, and refuses what later stages could not walk.
static void
set_depth(Parser *ps, Ast *a)
{
    a->depth = 1;
    for (int i = 0; i < a->n; i++)
        if (a->kids[i] && a->kids[i]->depth >= a->depth)
            a->depth = a->kids[i]->depth + 1;
    if (a->depth > MAX_DEPTH && !ps->too_deep) {
        diag_error(ps->diag, a->place, "nested deeper than %d levels", MAX_DEPTH);
        ps->too_deep = true;
    }
}

// A node whose kids are head[0..n_head) and then the list.
static Ast *
node(Parser *ps, AstKind k, Place p, Ast *const *head, int n_head, const AstList *tail)
{
    int n_tail = tail ? tail->n : 0;
    Ast *a = arena_new(&ps->mem->perm, Ast);
    a->kind = k;
    a->place = p;
    a->n = n_head + n_tail;
    if (a->n)
        a->kids = arena_array(&ps->mem->perm, Ast *, a->n);
    for (int i = 0; i < n_head; i++)
        a->kids[i] = head[i];
    for (int i = 0; i < n_tail; i++)
        a->kids[n_head + i] = tail->v[i];
    set_depth(ps, a);
    return a;
}

static Ast *
named(Ast *a, Place name_place, const char *text)
{
    a->text = text;
    a->name_place = name_place;
    return a;
}

enum { MAX_FIXED = 4 }; // kids that ast_node and ast_named take

static Ast *
node_va(Parser *ps, AstKind k, Place p, int n, va_list ap)
{
    Ast *kids[MAX_FIXED];
    for (int i = 0; i < n; i++)
        kids[i] = va_arg(ap, Ast *);
    return node(ps, k, p, kids, n, NULL);
}

Ast *
ast_node(Parser *ps, AstKind k, Token from, Place to, int n, ...)
{
    va_list ap;
    va_start(ap, n);
    Ast *a = node_va(ps, k, place_join(from.place, to), n, ap);
    va_end(ap);
    return a;
}

Ast *
ast_named(Parser *ps, AstKind k, Token from, Place to, Token name, int n, ...)
{
    va_list ap;
    va_start(ap, n);
    Ast *a = node_va(ps, k, place_join(from.place, to), n, ap);
    va_end(ap);
    return named(a, name.place, token_text(ps, name));
}

Ast *
ast_list(Parser *ps, AstKind k, Token from, Token to, const AstList *l)
{
    return node(ps, k, place_join(from.place, to.place), NULL, 0, l);
}

Ast *
ast_pair(Parser *ps, AstKind k, Ast *left, Ast *right)
{
    return node(ps, k, place_join(left->place, right->place), (Ast *[]){left, right}, 2,
                NULL);
}

// ---- declarations and members -------------------------------------------------------

Ast *
ast_file(Parser *ps, const AstList *decls)
{
    return node(ps, AST_FILE, (Place){ps->file, 0, 1}, NULL, 0, decls);
}

Ast *
ast_import(Parser *ps, Token from, Token path)
{
    return ast_named(ps, AST_IMPORT, from, path.place, path, 0);
}

Ast *
ast_config(Parser *ps, Token from, Ast *path, Ast *type, Ast *value, Ast *allowed)
{
    Place end = allowed ? allowed->place : value->place;
    return named(ast_node(ps, AST_CONFIG, from, end, 3, type, value, allowed),
                 path->place, path->text);
}

Ast *
ast_setting(Parser *ps, Ast *path, Ast *value)
{
    Ast *a =
        node(ps, AST_SETTING, place_join(path->place, value->place), &value, 1, NULL);
    return named(a, path->place, path->text);
}

Ast *
ast_path(Parser *ps, Ast *left, Token name)
{
    if (!left)
        return ast_name(ps, name);
    const char *text =
        arena_printf(&ps->mem->perm, "%s.%s", left->text, token_text(ps, name));
    left->text = mem_intern_str(ps->mem, text);
    left->place = left->name_place = place_join(left->place, name.place);
    return left;
}

Ast *
ast_param(Parser *ps, Token name, Ast *type, Ast *value)
{
    Place end = value ? value->place : type ? type->place : name.place;
    return ast_named(ps, AST_PARAM, name, end, name, 2, type, value);
}

static Ast *
group(Parser *ps, AstKind k, const AstList *l, Place if_empty)
{
    Place p = l && l->n ? place_join(l->v[0]->place, l->v[l->n - 1]->place) : if_empty;
    return node(ps, k, p, NULL, 0, l);
}

static Place
last_place(const AstList *l, Place otherwise)
{
    return l->n ? l->v[l->n - 1]->place : otherwise;
}

Ast *
ast_parameter(Parser *ps, Token from, Token name, const AstList *keys, Ast *type,
              Ast *value, const AstList *marks, const AstList *fors)
{
    Ast *head[] = {group(ps, AST_KEYS, keys, name.place), type, value,
                   group(ps, AST_MARKS, marks, name.place)};
    Place end = last_place(fors, last_place(marks, value->place));
    Ast *a = node(ps, AST_PARAMETER, place_join(from.place, end), head, 4, fors);
    return named(a, name.place, token_text(ps, name));
}

Ast *
ast_member(Parser *ps, Token name, const AstList *keys, Ast *value, const AstList *fors)
{
    Ast *head[] = {group(ps, AST_KEYS, keys, name.place), value};
    Place end = last_place(fors, value->place);
    Ast *a = node(ps, AST_MEMBER, place_join(name.place, end), head, 2, fors);
    return named(a, name.place, token_text(ps, name));
}

Ast *
ast_mark(Parser *ps, Token name, const AstList *args, Token to)
{
    return named(ast_list(ps, AST_MARK, name, to, args), name.place,
                 token_text(ps, name));
}

Ast *
ast_type(Parser *ps, Token name, const AstList *extents, Token to)
{
    Ast *a = named(ast_list(ps, AST_TYPE, name, to, extents), name.place,
                   token_text(ps, name));
    a->i = extents != NULL;
    return a;
}

Ast *
ast_type_tuple(Parser *ps, Token from, const AstList *types, Token to)
{
    return types->n == 1 ? types->v[0] : ast_list(ps, AST_TYPE_TUPLE, from, to, types);
}

// "else if" becomes an else of one statement or member.
Ast *
ast_if(Parser *ps, AstKind k, Token from, Ast *cond, Ast *yes, Ast *no)
{
    if (no && no->kind == k && k != AST_IF)
        no = group(ps, yes->kind, list_new(ps, no), no->place);
    return ast_node(ps, k, from, no ? no->place : yes->place, 3, cond, yes, no);
}

// ---- expressions --------------------------------------------------------------------

Ast *
ast_name(Parser *ps, Token t)
{
    return ast_named(ps, AST_NAME, t, t.place, t, 0);
}

// The digits of a number, without its underscores.
static char *
number_text(Parser *ps, const char *text)
{
    char *digits = arena_copy(&ps->mem->perm, text, strlen(text)), *to = digits;
    for (const char *from = digits; *from; from++)
        if (*from != '_')
            *to++ = *from;
    *to = '\0';
    return digits;
}

Ast *
ast_literal(Parser *ps, AstKind k, Token t)
{
    Ast *a = ast_named(ps, k, t, t.place, t, 0);
    errno = 0;
    if (k == AST_BOOL)
        a->i = t.code == TK_TRUE;
    if (k == AST_INT) {
        a->i = strtoll(number_text(ps, a->text), NULL, 10);
        if (errno == ERANGE)
            diag_error(ps->diag, t.place,
                       "an integer has 64 bits: it is at most %" PRId64, INT64_MAX);
    }
    if (k == AST_FLOAT) {
        a->f = strtod(number_text(ps, a->text), NULL);
        if (isinf(a->f))
            diag_error(ps->diag, t.place, "this number is too large for a double");
    }
    return a;
}

Ast *
ast_unary(Parser *ps, AstOper op, Token o, Ast *x)
{
    Ast *a = ast_node(ps, AST_UNARY, o, x->place, 1, x);
    a->op = op;
    return a;
}

// lemon's %nonassoc lets a chain through as a left-associative one; it is refused here.
static bool
is_chained(AstOper op, const Ast *l)
{
    return op >= OPER_EQ && op <= OPER_GE && l->op >= OPER_EQ && l->op <= OPER_GE &&
           !l->grouped;
}

Ast *
ast_binary(Parser *ps, AstOper op, Ast *l, Ast *r)
{
    if (is_chained(op, l) || is_chained(op, r))
        diag_error(ps->diag, place_join(l->place, r->place),
                   "comparisons do not chain: write 'a < b and b < c'");
    Ast *a = ast_pair(ps, AST_BINARY, l, r);
    a->op = op;
    return a;
}

Ast *
ast_range(Parser *ps, Ast *lo, Ast *hi, Token op, bool closed)
{
    Place end = hi ? hi->place : op.place;
    if ((lo->kind == AST_RANGE && !lo->grouped) ||
        (hi && hi->kind == AST_RANGE && !hi->grouped))
        diag_error(ps->diag, place_join(lo->place, end), "ranges do not chain");
    Ast *a = node(ps, AST_RANGE, place_join(lo->place, end), (Ast *[]){lo, hi}, 2, NULL);
    a->i = closed;
    return a;
}

// `params` was parsed as a value; it must be a name or a tuple of names.
Ast *
ast_lambda(Parser *ps, Ast *params, Ast *body)
{
    Ast *const *v = params->kind == AST_TUPLE ? params->kids : &params;
    int n = params->kind == AST_TUPLE ? params->n : 1;
    AstList *l = list_new(ps, NULL);
    for (int i = 0; i < n; i++) {
        if (v[i]->kind != AST_NAME) {
            diag_error(ps->diag, v[i]->place, "a parameter of '=>' must be a name");
            continue;
        }
        Ast *none[] = {NULL, NULL};
        Ast *param = node(ps, AST_PARAM, v[i]->place, none, 2, NULL);
        list_add(ps, l, named(param, v[i]->place, v[i]->text));
    }
    Ast *group_of = node(ps, AST_PARAMS, params->place, NULL, 0, l);
    return ast_pair(ps, AST_LAMBDA, group_of, body);
}

Ast *
ast_postfix(Parser *ps, AstKind k, Ast *x, Token name)
{
    Ast *a = node(ps, k, place_join(x->place, name.place), &x, 1, NULL);
    return k == AST_FIELD ? named(a, name.place, token_text(ps, name)) : a;
}

Ast *
ast_apply(Parser *ps, AstKind k, Ast *x, const AstList *args, Token end)
{
    return node(ps, k, place_join(x->place, end.place), &x, 1, args);
}

Ast *
ast_slice(Parser *ps, Ast *from, Token colon, Ast *to)
{
    Place p = place_join(from ? from->place : colon.place, to ? to->place : colon.place);
    return node(ps, AST_SLICE, p, (Ast *[]){from, to}, 2, NULL);
}

Ast *
ast_tuple(Parser *ps, const AstList *l)
{
    return l->n == 1 ? l->v[0] : group(ps, AST_TUPLE, l, l->v[0]->place);
}

// Parentheses: around one value they only group; the place grows by them.
Ast *
ast_paren(Parser *ps, Token from, const AstList *l, Token to)
{
    Ast *a = ast_tuple(ps, l);
    a->place = place_join(from.place, to.place);
    a->grouped = true;
    return a;
}

Ast *
ast_comp(Parser *ps, AstKind k, Token from, Ast *value, const AstList *clauses, Token to)
{
    return node(ps, k, place_join(from.place, to.place), &value, 1, clauses);
}

// ---- words and printing -------------------------------------------------------------

static const struct {
    const char *tag, *words;
} kinds[AST_N_KINDS] = {
    [AST_FILE] = {"file", "a file"},
    [AST_IMPORT] = {"import", "an import"},
    [AST_CONFIG] = {"config", "a config"},
    [AST_LET] = {"let", "a let"},
    [AST_ASSERT] = {"assert", "an assert"},
    [AST_FN] = {"fn", "a function"},
    [AST_LAYER] = {"layer", "a layer"},
    [AST_BLOCK] = {"block", "a block"},
    [AST_MODEL] = {"model", "a model"},
    [AST_TRAIN] = {"train", "a train section"},
    [AST_SETTING] = {"setting", "a setting"},
    [AST_PARAMS] = {"params", "parameters"},
    [AST_PARAM] = {"param", "an argument"},
    [AST_MEMBERS] = {"members", "members"},
    [AST_PARAMETER] = {"parameter", "a parameter"},
    [AST_MEMBER] = {"member", "a member"},
    [AST_MEMBER_IF] = {"member-if", "an if"},
    [AST_KEYS] = {"keys", "keys"},
    [AST_MARKS] = {"marks", "marks"},
    [AST_MARK] = {"mark", "a mark"},
    [AST_BODY] = {"body", "statements"},
    [AST_VAR] = {"var", "a var"},
    [AST_ASSIGN] = {"assign", "an assignment"},
    [AST_RETURN] = {"return", "a return"},
    [AST_FOR_STMT] = {"for-stmt", "a for"},
    [AST_IF_STMT] = {"if-stmt", "an if"},
    [AST_FOR] = {"for", "a for"},
    [AST_FILTER] = {"filter", "a filter"},
    [AST_TYPE] = {"type", "a type"},
    [AST_TYPE_LIST] = {"list-type", "a list type"},
    [AST_TYPE_TUPLE] = {"tuple-type", "a tuple type"},
    [AST_TYPE_DICT] = {"dict-type", "a dictionary type"},
    [AST_INT] = {"int", "an integer"},
    [AST_FLOAT] = {"float", "a number"},
    [AST_STRING] = {"string", "a string"},
    [AST_BOOL] = {"bool", "a boolean"},
    [AST_NAME] = {"name", "a name"},
    [AST_TUPLE] = {"tuple", "a tuple"},
    [AST_LIST] = {"list", "a list"},
    [AST_DICT] = {"dict", "a dictionary"},
    [AST_PAIR] = {"pair", "a pair"},
    [AST_LIST_COMP] = {"list-comp", "a list"},
    [AST_DICT_COMP] = {"dict-comp", "a dictionary"},
    [AST_IF] = {"if", "an if"},
    [AST_LAMBDA] = {"lambda", "a function"},
    [AST_UNARY] = {"unary", "an operation"},
    [AST_BINARY] = {"binary", "an operation"},
    [AST_RANGE] = {"range", "a range"},
    [AST_TRANSPOSE] = {"transpose", "a transpose"},
    [AST_FIELD] = {"field", "a field"},
    [AST_CALL] = {"call", "a call"},
    [AST_ARG] = {"arg", "a named argument"},
    [AST_INDEX] = {"index", "an index"},
    [AST_SLICE] = {"slice", "a slice"},
};

const char *
ast_kind_name(AstKind k)
{
    return kinds[k].words;
}

const char *
ast_kind_tag(AstKind k)
{
    return kinds[k].tag;
}

const char *
ast_oper_text(AstOper op)
{
    static const char *const text[] = {
        [OPER_NONE] = "", [OPER_NEG] = "-",    [OPER_NOT] = "not", [OPER_ADD] = "+",
        [OPER_SUB] = "-", [OPER_MUL] = "*",    [OPER_DIV] = "/",   [OPER_FLOORDIV] = "//",
        [OPER_MOD] = "%", [OPER_MATMUL] = "@", [OPER_POW] = "**",  [OPER_EQ] = "==",
        [OPER_NE] = "!=", [OPER_LT] = "<",     [OPER_LE] = "<=",   [OPER_GT] = ">",
        [OPER_GE] = ">=", [OPER_AND] = "and",  [OPER_OR] = "or",
    };
    return text[op];
}

static void
print_node(const Ast *a, int indent, FILE *to)
{
    if (indent)
        fprintf(to, "\n%*s", 2 * indent, "");
    if (!a) {
        fputs("-", to);
        return;
    }
    fprintf(to, "(%s", kinds[a->kind].tag);
    if (a->kind == AST_BOOL)
        fputs(a->i ? " true" : " false", to);
    else if (a->kind == AST_STRING || a->kind == AST_IMPORT)
        fprintf(to, " \"%s\"", a->text);
    else if (a->text)
        fprintf(to, " %s", a->text);
    if (a->op)
        fprintf(to, " %s", ast_oper_text(a->op));
    if (a->kind == AST_RANGE && a->i)
        fputs(" closed", to);
    if (a->kind == AST_TYPE && a->i)
        fputs(" []", to);
    for (int i = 0; i < a->n; i++)
        print_node(a->kids[i], indent + 1, to);
    fputs(")", to);
}

void
ast_print(const Ast *a, FILE *to)
{
    print_node(a, 0, to);
    fputs("\n", to);
}
