// parse.c - runs lexer and grammar over a source file, and words syntax errors.

#include "parse.h"
#include "parser.h"

#include <stdlib.h>
#include <string.h>

// ---- tokens -------------------------------------------------------------------------

// What a token is called in a message.
static const char *const token_names[] = {
    [0] = "the end of the file",
    [TK_NAME] = "a name",
    [TK_STRING] = "a string",
    [TK_INT] = "an integer",
    [TK_FLOAT] = "a number",
    [TK_IMPORT] = "'import'",
    [TK_CONFIG] = "'config'",
    [TK_LET] = "'let'",
    [TK_ASSERT] = "'assert'",
    [TK_FN] = "'fn'",
    [TK_LAYER] = "'layer'",
    [TK_BLOCK] = "'block'",
    [TK_MODEL] = "'model'",
    [TK_TRAIN] = "'train'",
    [TK_PARAM] = "'param'",
    [TK_WITH] = "'with'",
    [TK_FORWARD] = "'forward'",
    [TK_VAR] = "'var'",
    [TK_RETURN] = "'return'",
    [TK_FOR] = "'for'",
    [TK_IN] = "'in'",
    [TK_IF] = "'if'",
    [TK_THEN] = "'then'",
    [TK_ELSE] = "'else'",
    [TK_AND] = "'and'",
    [TK_OR] = "'or'",
    [TK_NOT] = "'not'",
    [TK_TRUE] = "'true'",
    [TK_FALSE] = "'false'",
    [TK_ARROW] = "'=>'",
    [TK_GIVES] = "'->'",
    [TK_RANGE_TO] = "'..='",
    [TK_RANGE] = "'..'",
    [TK_EQ] = "'=='",
    [TK_NE] = "'!='",
    [TK_LE] = "'<='",
    [TK_GE] = "'>='",
    [TK_LT] = "'<'",
    [TK_GT] = "'>'",
    [TK_ASSIGN] = "'='",
    [TK_POW] = "'**'",
    [TK_FLOORDIV] = "'//'",
    [TK_PLUS] = "'+'",
    [TK_MINUS] = "'-'",
    [TK_STAR] = "'*'",
    [TK_SLASH] = "'/'",
    [TK_PERCENT] = "'%'",
    [TK_AT] = "'@'",
    [TK_QUOTE] = "'''",
    [TK_DOT] = "'.'",
    [TK_COMMA] = "','",
    [TK_COLON] = "':'",
    [TK_LPAREN] = "'('",
    [TK_RPAREN] = "')'",
    [TK_LBRACKET] = "'['",
    [TK_RBRACKET] = "']'",
    [TK_LBRACE] = "'{'",
    [TK_RBRACE] = "'}'",
};

enum { N_TOKENS = sizeof token_names / sizeof token_names[0] };

static bool
is_reserved(int code)
{
    return code > 0 && token_names[code] && token_names[code][0] == '\'' &&
           token_names[code][1] >= 'a' && token_names[code][1] <= 'z';
}

Token
lex_token(Parser *ps, int code, const char *start, const char *end)
{
    ps->cursor = end;
    Place p = {ps->file, (uint32_t)(start - ps->text), (uint32_t)(end - start)};
    return (Token){code, p};
}

Token
lex_fault(Parser *ps, Place p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&ps->mem->scratch, fmt, ap);
    va_end(ap);
    diag_error(ps->diag, p, "%s", text);
    ps->stopped = true;
    return (Token){-1, p};
}

// ---- syntax errors ------------------------------------------------------------------

// A family of tokens that a message names by one word, when `sign` is among the
// expected ones.
typedef struct Family {
    int sign;
    const char *name;
    int members[24]; // ends with 0
} Family;

static const Family families[] = {
    {TK_IMPORT,
     "a declaration",
     {TK_IMPORT, TK_CONFIG, TK_LET, TK_ASSERT, TK_FN, TK_FORWARD, TK_LAYER, TK_BLOCK,
      TK_MODEL, TK_TRAIN}},
    {TK_PARAM,
     "a member",
     {TK_PARAM, TK_LET, TK_ASSERT, TK_FN, TK_FORWARD, TK_NAME, TK_IF}},
    {TK_RETURN,
     "a statement",
     {TK_RETURN, TK_LET, TK_ASSERT, TK_FN, TK_FORWARD, TK_VAR, TK_FOR, TK_IF, TK_NAME}},
    {TK_INT,
     "an expression",
     {TK_INT, TK_FLOAT, TK_STRING, TK_TRUE, TK_FALSE, TK_NAME, TK_LPAREN, TK_LBRACKET,
      TK_LBRACE, TK_IF, TK_NOT, TK_MINUS}},
    {TK_PLUS, "an operator", {TK_PLUS,    TK_MINUS,  TK_STAR,     TK_SLASH, TK_FLOORDIV,
                              TK_PERCENT, TK_AT,     TK_POW,      TK_EQ,    TK_NE,
                              TK_LT,      TK_LE,     TK_GT,       TK_GE,    TK_AND,
                              TK_OR,      TK_RANGE,  TK_RANGE_TO, TK_ARROW, TK_QUOTE,
                              TK_DOT,     TK_LPAREN, TK_LBRACKET}},
};

// "a name, ':' or '['", from the tokens that could stand.
static const char *
expected_text(Parser *ps, const void *parser)
{
    bool left[N_TOKENS];
    const char *names[N_TOKENS];
    int n = 0;
    for (int t = 0; t < N_TOKENS; t++)
        left[t] = token_names[t] && parser_could_stand(parser, t);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        if (!left[families[f].sign])
            continue;
        names[n++] = families[f].name;
        for (const int *m = families[f].members; *m; m++)
            left[*m] = false;
    }
    bool type = left[TK_NAME] && left[TK_LBRACKET] && left[TK_LPAREN] && left[TK_LBRACE];
    if (type) {
        names[n++] = "a type";
        left[TK_NAME] = left[TK_LBRACKET] = left[TK_LPAREN] = left[TK_LBRACE] = false;
    }
    for (int t = 1; t < N_TOKENS; t++)
        if (left[t])
            names[n++] = token_names[t];
    if (left[0])
        names[n++] = token_names[0];
    Text text = {0};
    for (int i = 0; i < n; i++)
        text_add(&ps->mem->scratch, &text, "%s%s",
                 i == 0       ? ""
                 : i == n - 1 ? " or "
                              : ", ",
                 names[i]);
    return n ? text.v : "nothing more";
}

static bool
is_closing(int code)
{
    return code == TK_RPAREN || code == TK_RBRACKET || code == TK_RBRACE;
}

void
parse_unexpected(Parser *ps, const void *parser, Token found)
{
    const char *what =
        found.code == 0 ? token_names[0]
        : found.code == TK_STRING
            ? token_names[TK_STRING]
            : arena_printf(&ps->mem->scratch, "'%.*s'", (int)found.place.length,
                           ps->text + found.place.offset);
    Place p = found.place;
    if (found.code == 0 && ps->last.place.file) // point behind the last token
        p = (Place){ps->file, ps->last.place.offset + ps->last.place.length, 1};
    diag_error(ps->diag, p, "expected %s, found %s", expected_text(ps, parser), what);
    ps->stopped = true;
    if (is_reserved(found.code) && parser_could_stand(parser, TK_NAME))
        diag_note(ps->diag, p, "%s is a reserved word and cannot be a name", what);
    if ((found.code == 0 || is_closing(found.code)) && ps->open.n) {
        Token t = ps->open.v[ps->open.n - 1];
        diag_note(ps->diag, t.place, "%s opened here is not closed", token_names[t.code]);
    }
}

// ---- the parse ----------------------------------------------------------------------

// Keeps the brackets that are open, for the note above.
static void
track_bracket(Parser *ps, Token t)
{
    if (t.code == TK_LPAREN || t.code == TK_LBRACKET || t.code == TK_LBRACE)
        array_push(&ps->mem->scratch, &ps->open, t);
    else if (is_closing(t.code) && ps->open.n)
        ps->open.n--;
}

// Feeds the parser all tokens. A reserved word beside a dot is a plain name: paths may
// hold them.
static void
parse_tokens(Parser *ps, void *parser)
{
    Token t = lexer_next(ps);
    while (!ps->stopped) {
        Token next = t.code > 0 ? lexer_next(ps) : t;
        if (is_reserved(t.code) && (ps->last.code == TK_DOT || next.code == TK_DOT))
            t.code = TK_NAME;
        if (t.code < 0)
            break;
        bool was_stopped = ps->stopped; // by a fault in `next`: `t` is parsed first
        ps->stopped = false;
        if (!parser_could_stand(parser,
                                t.code)) { // before the parser reduces anything for it
            parse_unexpected(ps, parser, t);
            break;
        }
        pcvrc_parse(parser, t.code, t, ps);
        if (ps->stopped || was_stopped || t.code == 0) {
            ps->stopped = true;
            break;
        }
        track_bracket(ps, t);
        ps->last = t;
        t = next;
    }
}

static Ast *
parse(Mem *mem, Diag *d, uint32_t file, bool expression)
{
    const char *text = d->sources.v[file].text;
    Parser ps = {.mem = mem, .diag = d, .file = file, .text = text, .cursor = text};
    int errors = d->errors;
    void *parser = pcvrc_parseAlloc(malloc);
    if (!parser) {
        diag_error(d, (Place){file, 0, 1}, "out of memory");
        return NULL;
    }
    if (expression)
        pcvrc_parse(parser, TK_EXPR_START, (Token){TK_EXPR_START, {file, 0, 1}}, &ps);
    parse_tokens(&ps, parser);
    pcvrc_parseFree(parser, free);
    return d->errors == errors ? ps.root : NULL;
}

Ast *
parse_file(Mem *mem, Diag *d, uint32_t file)
{
    return parse(mem, d, file, false);
}

Ast *
parse_expr(Mem *mem, Diag *d, uint32_t file)
{
    return parse(mem, d, file, true);
}
