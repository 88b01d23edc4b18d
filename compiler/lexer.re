// lexer.re - the tokens of the language.

#include "parse.h"
#include "parser.h"

Token
lexer_next(Parser *ps)
{
    const char *YYCURSOR = ps->cursor;
    const char *YYMARKER = YYCURSOR;
    const char *start;

#define TOKEN(code) return lex_token(ps, code, start, YYCURSOR)
#define HERE lex_token(ps, 0, start, YYCURSOR).place
#define FAULT(...) return lex_fault(ps, HERE, __VA_ARGS__)

again:
    start = YYCURSOR;

    /*!re2c
    re2c:define:YYCTYPE = "unsigned char";
    re2c:yyfill:enable = 0;

    digits = [0-9] ("_"? [0-9])*;
    expo   = [eE] [+-]? digits;
    word   = [A-Za-z_] [A-Za-z0-9_]*;
    high   = [\x80-\xbf];

    [ \t\r\n]+             { goto again; }
    "\xef\xbb\xbf"         { goto again; }
    "#" [^\n\x00]*         { goto again; }
    "\x00"                 { return lex_token(ps, 0, start, start); }

    "import"               { TOKEN(TK_IMPORT); }
    "config"               { TOKEN(TK_CONFIG); }
    "let"                  { TOKEN(TK_LET); }
    "assert"               { TOKEN(TK_ASSERT); }
    "fn"                   { TOKEN(TK_FN); }
    "layer"                { TOKEN(TK_LAYER); }
    "block"                { TOKEN(TK_BLOCK); }
    "model"                { TOKEN(TK_MODEL); }
    "train"                { TOKEN(TK_TRAIN); }
    "param"                { TOKEN(TK_PARAM); }
    "with"                 { TOKEN(TK_WITH); }
    "forward"              { TOKEN(TK_FORWARD); }
    "var"                  { TOKEN(TK_VAR); }
    "return"               { TOKEN(TK_RETURN); }
    "for"                  { TOKEN(TK_FOR); }
    "in"                   { TOKEN(TK_IN); }
    "if"                   { TOKEN(TK_IF); }
    "then"                 { TOKEN(TK_THEN); }
    "else"                 { TOKEN(TK_ELSE); }
    "and"                  { TOKEN(TK_AND); }
    "or"                   { TOKEN(TK_OR); }
    "not"                  { TOKEN(TK_NOT); }
    "true"                 { TOKEN(TK_TRUE); }
    "false"                { TOKEN(TK_FALSE); }
    word                   { TOKEN(TK_NAME); }

    digits                 { TOKEN(TK_INT); }
    digits "." digits expo? | digits expo { TOKEN(TK_FLOAT); }
    digits (("." digits)? (expo | [eE])?) [A-Za-z_] [A-Za-z0-9_]*
                           { FAULT("a number may not run into a name"); }
    digits "." / [^0-9.]   { FAULT("a number may not end with a dot"); }
    "." digits             { FAULT("a number may not start with a dot"); }

    ["] [^"\n\x00]* ["]    { TOKEN(TK_STRING); }
    ["] [^"\n\x00]*        { FAULT("a string must end on its line"); }

    "=>"                   { TOKEN(TK_ARROW); }
    "->"                   { TOKEN(TK_GIVES); }
    "..="                  { TOKEN(TK_RANGE_TO); }
    ".."                   { TOKEN(TK_RANGE); }
    "=="                   { TOKEN(TK_EQ); }
    "!="                   { TOKEN(TK_NE); }
    "<="                   { TOKEN(TK_LE); }
    ">="                   { TOKEN(TK_GE); }
    "<"                    { TOKEN(TK_LT); }
    ">"                    { TOKEN(TK_GT); }
    "="                    { TOKEN(TK_ASSIGN); }
    "**"                   { TOKEN(TK_POW); }
    "//"                   { TOKEN(TK_FLOORDIV); }
    "+"                    { TOKEN(TK_PLUS); }
    "-"                    { TOKEN(TK_MINUS); }
    "*"                    { TOKEN(TK_STAR); }
    "/"                    { TOKEN(TK_SLASH); }
    "%"                    { TOKEN(TK_PERCENT); }
    "@"                    { TOKEN(TK_AT); }
    "'"                    { TOKEN(TK_QUOTE); }
    "."                    { TOKEN(TK_DOT); }
    ","                    { TOKEN(TK_COMMA); }
    ":"                    { TOKEN(TK_COLON); }
    "("                    { TOKEN(TK_LPAREN); }
    ")"                    { TOKEN(TK_RPAREN); }
    "["                    { TOKEN(TK_LBRACKET); }
    "]"                    { TOKEN(TK_RBRACKET); }
    "{"                    { TOKEN(TK_LBRACE); }
    "}"                    { TOKEN(TK_RBRACE); }

    [\xc2-\xdf] high | [\xe0-\xef] high{2} | [\xf0-\xf4] high{3}
                           { FAULT("unexpected '%.*s'", (int)(YYCURSOR - start), start); }
    [!-~]                  { FAULT("unexpected '%c'", *start); }
    *                      { FAULT("unexpected byte 0x%02x", (unsigned char)*start); }
    */
}
